import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { parseShape } from "../../gate/pipeline/body.ts";
import { hashOf } from "../../identity/secrets.ts";
import { Problem, problem } from "../../problems/problem.ts";
import type { Reason } from "../../problems/reasons.ts";
import { removeFactor } from "../../rest-gateway/auth/factors.ts";
import { issue } from "../../rest-gateway/auth/issue.ts";
import { keepOnce, takeOnce } from "../../rest-gateway/auth/one-time-values.ts";
import { CredentialBody, SignatureBody } from "../../rest-gateway/auth/passkeys/credentials.ts";
import {
  type PasskeyOptions,
  type PasskeyRow,
  passkeysIn,
  spentChallenge,
} from "../../rest-gateway/auth/passkeys/passkeys.ts";
import type { PublicFactor } from "../../rest-gateway/auth/public-users.ts";
import { tryCode } from "../../rest-gateway/auth/second-factor.ts";
import { admitPasskey } from "../../rest-gateway/auth/sign-in.ts";
import { isUuid } from "../../rest-gateway/conventions/parameters.ts";
import { PasskeyAnswer, PasskeyChange, readAuthBody } from "./bodies.ts";
import { type AuthCall, managerOf, requireRecent, type SignedIn } from "./call.ts";
import { invalid } from "./problem.ts";
import { AUTH_SESSION, type SessionAnswer } from "./session.ts";

// Passkeys at `/auth/v1`: each is a factor of the type webauthn, and signs in at `/passkeys`.

/** Seconds in which a passkey must be created after its enrolment. */
const ENROLMENT_SECONDS = 600;

/** `POST /factors` with the type webauthn. The factor exists when its passkey is created. */
export async function enrollPasskey({ auth }: AuthCall, signedIn: SignedIn, name: string): Promise<object> {
  if (name !== "" && (signedIn.user.factors ?? []).some((each) => each.friendly_name === name)) {
    throw problem("factor name taken", { name });
  }
  if (!auth.passkeys?.isOn) throw problem("passkeys off", { url: auth.url });
  const id = randomUUID();
  const expiresAt = auth.clock() + ENROLMENT_SECONDS * 1000;
  await keepOnce(auth, "passkey", pendingKey(id, signedIn), { name, expiresAt }, expiresAt);
  return { id, type: "webauthn", friendly_name: name };
}

type Pending = { readonly name: string; readonly expiresAt: number };

/** The enrolment of a passkey, which stays. */
export async function pendingPasskey(
  { auth }: AuthCall,
  signedIn: SignedIn,
  id: string,
): Promise<PublicFactor | undefined> {
  const key = pendingKey(id, signedIn);
  const kept = await takeOnce<Pending>(auth, "passkey", key);
  if (kept === null) return undefined;
  await keepOnce(auth, "passkey", key, kept, kept.expiresAt);
  return { id, friendly_name: kept.name, factor_type: "webauthn", status: "unverified" };
}

/** Ends an enrolment. */
export const forgetPasskey = ({ auth }: AuthCall, signedIn: SignedIn, id: string) =>
  takeOnce<Pending>(auth, "passkey", pendingKey(id, signedIn));

const pendingKey = (id: string, { session }: SignedIn) => hashOf([id, session].join("\0"));

/** `POST /factors/{id}/challenge`: the options to create the passkey of the factor, or to ask for it. */
export async function challengePasskeyFactor(
  call: AuthCall,
  signedIn: SignedIn,
  factor: PublicFactor,
): Promise<object> {
  const { auth } = call;
  const isNew = factor.status === "unverified";
  const publicKey = isNew
    ? await passkeysIn(auth).creationOptions(signedIn.account, { id: signedIn.userId, session: signedIn.session })
    : await passkeysIn(auth).requestOptions((await rowsOf(call, signedIn)).filter(({ id }) => id === factor.id));
  const { challenge_id: id, expires_at } = challengeOf(call, publicKey);
  const webauthn = { type: isNew ? "create" : "request", credential_options: { publicKey } };
  return { id, type: "webauthn", expires_at, webauthn };
}

/** The id of a challenge and when it expires, as the wire has them. */
function challengeOf({ auth }: AuthCall, { challenge }: PasskeyOptions) {
  const { id, expiresAt } = passkeysIn(auth).readChallenge(challenge);
  return { challenge_id: id, expires_at: Math.floor(expiresAt / 1000) };
}

type Sent = { readonly challenge: string; readonly credential: unknown };

/** Creates the passkey of a factor, or verifies what it has signed. Rejects with Problem. */
export async function provePasskey(
  call: AuthCall,
  signedIn: SignedIn,
  factor: PublicFactor,
  { challenge, credential }: Sent,
): Promise<void> {
  const { auth, client } = call;
  if (factor.status === "unverified") {
    const { id, friendly_name: name } = factor;
    await createPasskey(call, signedIn, { challenge, credential }, { id, name }).catch(refuseFactor);
    return void (await forgetPasskey(call, signedIn, id));
  }
  const signature = parse(SignatureBody, credential);
  const signed = await passkeysIn(auth).verify(signature);
  if (signed?.id !== factor.id || signed.challenge !== challenge.toLowerCase()) throw problem("passkey refused");
  const proof = { factors: [], code: signed };
  if ((await tryCode(auth, signedIn.account, proof, null, client)) !== "accepted") {
    throw problem("passkey refused");
  }
}

/** What `/passkeys` refuses → the same at `/factors`, whose codes on the wire are others. */
const OF_FACTOR: Partial<
  Readonly<Record<Reason, "factor challenge expired" | "passkey refused" | "too many factors">>
> = {
  "passkey challenge not valid": "factor challenge expired",
  "passkey not valid": "passkey refused",
  "too many passkeys": "too many factors",
};

function refuseFactor(error: unknown): never {
  const reason = error instanceof Problem ? OF_FACTOR[error.reason] : undefined;
  throw reason === undefined ? error : problem(reason);
}

async function createPasskey(
  call: AuthCall,
  { userId: id, session }: SignedIn,
  { challenge, credential }: Sent,
  factor?: { readonly id: string; readonly name: string },
): Promise<PasskeyRow> {
  const created = { ...factor, challenge, credential: parse(CredentialBody, credential) };
  return passkeysIn(call.auth).add(call, { id, session }, created, []);
}

const parse = <Body>(schema: z.ZodType<Body>, sent: unknown): Body => parseShape(schema, sent, "credential", invalid);

/** `POST /passkeys/registration/options` */
export async function beginPasskey(call: AuthCall): Promise<object> {
  const signedIn = await managerOf(call);
  const { account, userId: id, session } = signedIn;
  // Otherwise a thief could stay signed in with a passkey of their own.
  requireRecent(call.auth, signedIn);
  const options = await passkeysIn(call.auth).creationOptions(account, { id, session });
  return { ...challengeOf(call, options), options };
}

/** `POST /passkeys/registration/verify` */
export async function addPasskey(call: AuthCall): Promise<object> {
  const signedIn = await managerOf(call);
  return describePasskey(await createPasskey(call, signedIn, await sentIn(call)));
}

/** `POST /passkeys/authentication/options` */
export async function challengePasskey(call: AuthCall): Promise<object> {
  const options = await passkeysIn(call.auth).requestOptions();
  return { ...challengeOf(call, options), options };
}

/** `POST /passkeys/authentication/verify`: a passkey is two factors, so the session has `aal2`. */
export async function signInWithPasskey(call: AuthCall): Promise<SessionAnswer> {
  const passkeys = passkeysIn(call.auth);
  const { challenge, credential } = await sentIn(call);
  const signature = parse(SignatureBody, credential);
  passkeys.requireChallenge(signature, challenge);
  const login = await admitPasskey(call.auth, signature, call.client).catch(async (error) => {
    const isRefused = error instanceof Problem && error.reason === "passkey refused at login";
    throw isRefused && (await passkeys.isSpent(challenge)) ? spentChallenge() : error;
  });
  return issue(call, login, AUTH_SESSION);
}

/** `GET /passkeys` */
export async function listPasskeys(call: AuthCall): Promise<object> {
  return (await rowsOf(call, await managerOf(call))).map(describePasskey);
}

/** `PATCH /passkeys/{id}` */
export async function renamePasskey(call: AuthCall): Promise<object> {
  const signedIn = await managerOf(call);
  const { friendly_name: name } = await readAuthBody(call.request, call.auth.limits, PasskeyChange);
  if (!name?.trim()) throw invalid("friendly_name is required");
  const { id } = await rowIn(call, signedIn);
  await passkeysIn(call.auth).rename(signedIn.userId, id, name);
  return describePasskey((await rowsOf(call, signedIn)).find((each) => each.id === id)!);
}

/** `DELETE /passkeys/{id}` */
export async function deletePasskey(call: AuthCall): Promise<void> {
  const { auth, client } = call;
  const signedIn = await managerOf(call);
  const { id } = await rowIn(call, signedIn);
  requireRecent(auth, signedIn);
  await removeFactor(auth, signedIn, id, client.address);
}

const rowsOf = ({ auth }: AuthCall, { userId }: SignedIn) => passkeysIn(auth).list(userId);

async function rowIn(call: AuthCall, signedIn: SignedIn): Promise<PasskeyRow> {
  const sent = String(call.request.params.passkeyId).toLowerCase();
  const row = (await rowsOf(call, signedIn)).find(({ id }) => id === sent);
  if (row === undefined) throw problem("no such passkey");
  return row;
}

async function sentIn({ auth, request }: AuthCall): Promise<Sent> {
  const { challenge_id: challenge, credential } = await readAuthBody(request, auth.limits, PasskeyAnswer);
  if (!challenge || !isUuid(challenge)) throw invalid("challenge_id must be a UUID");
  return { challenge, credential };
}

export const describePasskey = ({ id, name, createdAt, lastUsedAt }: PasskeyRow) => ({
  id,
  friendly_name: name,
  created_at: createdAt,
  ...(lastUsedAt !== null && { last_used_at: lastUsedAt }),
});

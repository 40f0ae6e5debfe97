import { randomUUID } from "node:crypto";
import { networkOf } from "../../db/network.ts";
import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS } from "../../identity/tokens.ts";
import { problem } from "../../problems/problem.ts";
import { beginFactor, enableFactor, listFactors, removeFactor } from "../../rest-gateway/auth/factors.ts";
import { bytes } from "../../rest-gateway/auth/functions.ts";
import type { Issued } from "../../rest-gateway/auth/issue.ts";
import { keepOnce, takeOnce } from "../../rest-gateway/auth/one-time-values.ts";
import type { PublicFactor } from "../../rest-gateway/auth/public-users.ts";
import { svgOf } from "../../rest-gateway/auth/qr-code.ts";
import { tryCode } from "../../rest-gateway/auth/second-factor.ts";
import type { Method } from "../../rest-gateway/auth/session-repository.ts";
import { isUuid } from "../../rest-gateway/conventions/parameters.ts";
import { FactorChange, FactorCode, readAuthBody } from "./bodies.ts";
import {
  type AuthCall,
  hasSecondFactor,
  managerOf,
  requireRecent,
  type SignedIn,
  type SignedInUser,
  signedInOf,
} from "./call.ts";
import { challengePasskeyFactor, enrollPasskey, forgetPasskey, pendingPasskey, provePasskey } from "./passkeys.ts";
import { invalid } from "./problem.ts";
import { AUTH_SESSION, type SessionAnswer } from "./session.ts";

// `/auth/v1/factors`: the second factors of a user, each an authenticator app or a passkey with a name.

/** Seconds in which the code of a challenge must be sent. */
const CHALLENGE_SECONDS = 300;

/** `POST /factors`: a secret for an authenticator app, which waits for its first code, or a passkey that is to be created. */
export async function enrollFactor(call: AuthCall): Promise<object> {
  const { auth, request } = call;
  const signedIn = await managerOf(call);
  const sent = await readAuthBody(request, auth.limits, FactorChange);
  const { factor_type: type, friendly_name: name, issuer } = sent;
  if (type !== "totp" && type !== "webauthn") throw invalid("factor_type needs to be totp or webauthn");
  if (sent.phone) throw problem("phones off");
  // Otherwise a thief could lock the owner out with a factor of their own.
  requireRecent(auth, signedIn);
  if (type === "webauthn") return enrollPasskey(call, signedIn, name ?? "");
  const { id, secret, uri } = await beginFactor(auth, signedIn.account, name ?? "", issuer || undefined);
  return { id, type: "totp", friendly_name: name ?? "", totp: { qr_code: await svgOf(uri), secret, uri } };
}

/** `POST /factors/{id}/challenge` */
export async function challengeFactor(call: AuthCall): Promise<object> {
  const { auth } = call;
  const signedIn = await signedInOf(call);
  const factor = await factorOf(call, signedIn);
  if (factor.factor_type === "webauthn") return challengePasskeyFactor(call, signedIn, factor);
  const id = randomUUID();
  const expiresAt = auth.clock() + CHALLENGE_SECONDS * 1000;
  await keepOnce(auth, "challenge", challengeKey(call, id, factor, signedIn), { expiresAt }, expiresAt);
  return { id, type: "totp", expires_at: Math.floor(expiresAt / 1000) };
}

/** `POST /factors/{id}/verify`: the code of a challenge. The session has `aal2` from then on, and new tokens. */
export async function verifyFactor(call: AuthCall): Promise<SessionAnswer> {
  const { auth, request } = call;
  const signedIn = await signedInOf(call);
  const factor = await factorOf(call, signedIn);
  // A thief with the password may have begun it before another one was enabled.
  if (factor.status === "unverified" && !hasSecondFactor(signedIn)) throw problem("factor needs the other");
  const { challenge_id: challenge, code, webauthn } = await readAuthBody(request, auth.limits, FactorCode);
  if (!challenge || !isUuid(challenge)) throw invalid("challenge_id must be a UUID");
  if (factor.factor_type === "webauthn") {
    await provePasskey(call, signedIn, factor, { challenge, credential: webauthn?.credential_response });
    return raise(call, signedIn, "mfa/webauthn");
  }
  const key = challengeKey(call, challenge, factor, signedIn);
  const kept = await takeOnce<{ readonly expiresAt: number }>(auth, "challenge", key);
  if (kept === null) throw problem("factor challenge expired");
  if (!(await isRight(call, signedIn, factor, code ?? ""))) {
    // For another try, until it expires.
    await keepOnce(auth, "challenge", key, kept, kept.expiresAt);
    throw problem("factor code wrong");
  }
  return raise(call, signedIn, "totp");
}

type RaisedSession = SignedInUser & Pick<Issued, "methods">;

/** Records that the session has proved a second factor. Its new tokens have `aal2`. */
async function raise(call: AuthCall, { userId, session }: SignedIn, method: Method): Promise<SessionAnswer> {
  const { functions, tokens } = call.auth;
  const secret = tokens.issueRefresh(userId);
  const values = [
    userId,
    session,
    method,
    bytes(hashOf(secret)),
    functions.now(),
    functions.now(REFRESH_SECONDS * 1000),
  ];
  const types = "$1, $2::uuid, $3, $4::bytea, $5::timestamptz, $6::timestamptz";
  const raised = await functions.change<RaisedSession | null>(`raise_session(${types})`, values);
  if (raised === null) throw problem("session ended");
  const signedInAt = Date.parse(raised.startedAt);
  return AUTH_SESSION.send(call, { ...raised, session, signedInAt, secret, read: raised.user });
}

/** Enables a factor with its first code, or spends a code of an enabled one. */
async function isRight({ auth, client }: AuthCall, signedIn: SignedIn, factor: PublicFactor, code: string) {
  const { userId: id, session, account } = signedIn;
  if (factor.status === "unverified")
    return (await enableFactor(auth, { id, session }, factor.id, code, client)) !== null;
  const factors = (await listFactors(auth, id)).flatMap((each) => (each.id === factor.id && each.secret) || []);
  const outcome = await tryCode(auth, account, { factors, code }, null, client);
  return outcome === "accepted";
}

/** `DELETE /factors/{id}` */
export async function unenrollFactor(call: AuthCall): Promise<object> {
  const { auth, client } = call;
  const signedIn = await signedInOf(call);
  const factor = await factorOf(call, signedIn);
  if (factor.status === "verified") {
    if (signedIn.aal === 1) throw problem("factor removal needs a code");
    requireRecent(auth, signedIn);
  }
  if (factor.factor_type === "webauthn" && factor.status === "unverified") {
    await forgetPasskey(call, signedIn, factor.id);
  }
  await removeFactor(auth, signedIn, factor.id, client.address);
  return { id: factor.id };
}

/** The factor in the path. Rejects with Problem if it is not one of the user. */
async function factorOf(call: AuthCall, signedIn: SignedIn): Promise<PublicFactor> {
  const id = String(call.request.params.factorId).toLowerCase();
  const known = (signedIn.user.factors ?? []).find((each) => each.id === id);
  const found = known ?? (await pendingPasskey(call, signedIn, id));
  if (found === undefined) throw problem("no such factor");
  return found;
}

/** A challenge belongs to a factor, a session and a network. */
const challengeKey = ({ client }: AuthCall, id: string, factor: PublicFactor, { session }: SignedIn) =>
  hashOf([id.toLowerCase(), factor.id, session, networkOf(client.address)].join("\0"));

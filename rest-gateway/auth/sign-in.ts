import type { CancelSignal } from "../../db/wire/connection.ts";
import type { Account, Challenge } from "../../identity/account.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import type { ChallengeInput, LoginInput } from "./bodies.ts";
import { networkAround } from "./device.ts";
import type { PasskeySignature } from "./passkeys/credentials.ts";
import type { Signed } from "./passkeys/passkeys.ts";
import { type VerifiedLogin, verifyPassword, type WrongPassword } from "./passwords.ts";
import { refuseByHook, wrongCodeAtLogin } from "./problem.ts";
import { refusedByHook, settling, type VerifiedAttempt } from "./repository.ts";
import { type FactorProof, tryCode } from "./second-factor.ts";
import { type Client, guard, type ReservedAttempt, reserveLogin, reserveResponse, settle } from "./throttle.ts";

// Verifies the credentials of a login, for tokens, a session or a single request.

/** An account that may sign in. Issuing its tokens or session settles the attempt. */
export type AdmittedLogin = VerifiedAttempt & { readonly account: Account };

/** The account of Basic credentials, for a single request. Rejects as `admitLogin` does. */
export async function signInOnce(
  auth: Auth,
  input: LoginInput,
  address: string,
  signal?: CancelSignal,
): Promise<Account> {
  const { account, attempt } = await admitLogin(auth, input, { address, signal });
  const signIn = { method: "password", methods: ["password"], aal: 1, provider: null, session: null, kind: "request" };
  const about = { ...signIn, device: null, isNewDevice: false, network: networkAround(address) };
  // An error of the hook undoes both.
  const calling = { call: "after_sign_in($1, $2::jsonb)", values: [account.id, JSON.stringify(about)] };
  await auth.functions.run(calling, settling(attempt, false)).catch(async (error) => {
    await settle(auth, attempt, false, refusedByHook(account.id, address));
    return refuseByHook(error);
  });
  return account;
}

/**
 * Verifies the credentials. Rejects with Problem:
 * - "too many attempts", before the password is checked,
 * - "wrong password", also for an unknown login, and "wrong password or not confirmed",
 * - "account disabled", only if the password is right,
 * - "second factor needed", if the code is missing.
 * Rejects with Problem if the password is right and the code is wrong.
 */
export async function admitLogin(
  auth: Auth,
  { username, password, code }: LoginInput,
  client: Client,
): Promise<AdmittedLogin> {
  const login = await verify(auth, username, password, client);
  const { account, attempt } = login;
  if (account.hasFactor && code === null) {
    await settle(auth, attempt, false);
    throw problem("second factor needed", { account });
  }
  if (!account.hasFactor) return { account, attempt, address: client.address };
  await requireCode(auth, login, code!, client, null);
  return { account, attempt, address: client.address, ...factorOf(code!) };
}

/**
 * The account of a passkey, which needs neither a name nor a password. Rejects as `admitLogin` does, and with "passkey refused at login" and
 * "passkey of an unconfirmed account".
 */
export async function admitPasskey(auth: Auth, signature: PasskeySignature, client: Client): Promise<AdmittedLogin> {
  const signed = (await auth.passkeys?.verify(signature)) ?? null;
  if (signed === null) return refuseUnknown(auth, client);
  const login = await reserveLogin(auth, { userId: signed.userId }, client);
  const { account, attempt } = login;
  // Deleted meanwhile.
  if (account === null) return refuseUnknown(auth, client, attempt);
  await requireCode(auth, await requireOpen(auth, { ...login, account }, client, true), signed, client, null);
  return { account, attempt, address: client.address, byPasskey: true };
}

/** A passkey that is not valid counts for the network, as a failed login does. */
async function refuseUnknown(auth: Auth, client: Client, attempt?: ReservedAttempt): Promise<never> {
  const reserved = attempt ?? (await reserveResponse(auth, client));
  await settle(auth, reserved, true, { event: "passkey_failed", userId: null, address: client.address });
  throw refusedPasskey();
}

/** As `admitLogin`, but without the code of a second factor: the caller issues only what the password alone may open. */
export async function admitPassword(
  auth: Auth,
  username: string,
  password: string,
  client: Client,
): Promise<AdmittedLogin> {
  const { account, attempt } = await verify(auth, username, password, client);
  return { account, attempt, address: client.address };
}

async function verify(auth: Auth, username: string, password: string, client: Client): Promise<VerifiedLogin> {
  const login = await verifyPassword(auth, { login: username }, password, client, wrongIn(auth));
  return requireOpen(auth, login, client, false);
}

/** Whether accounts that must confirm their e-mail may not sign in before. */
const confirms = ({ settings }: Auth): boolean => settings.emailConfirm === "required";

/** A wrong password and an unknown login get the same error. */
function wrongIn(auth: Auth): WrongPassword {
  const reason = confirms(auth) ? "wrong password or not confirmed" : "wrong password";
  return { event: "login_failed", error: () => problem(reason) };
}

async function requireOpen(
  auth: Auth,
  login: VerifiedLogin,
  client: Client,
  byPasskey: boolean,
): Promise<VerifiedLogin> {
  const { isDisabled, mustConfirm } = login.account;
  if (isDisabled) return refuse(auth, login, client, "disabled", byPasskey);
  return confirms(auth) && mustConfirm ? refuse(auth, login, client, "unconfirmed", byPasskey) : login;
}

/** Completes a login whose code was missing, and spends the challenge. Rejects as `admitLogin` does, and with "invalid challenge". */
export async function admitChallenge(
  auth: Auth,
  { challenge, code }: ChallengeInput,
  client: Client,
): Promise<AdmittedLogin> {
  const { id, userId, epoch, proof } = verifiedChallenge(auth, challenge);
  const login = await reserveLogin(auth, { userId }, client);
  const { account, attempt } = login;
  if (account === null || account.epoch !== epoch || !account.hasFactor || account.isDisabled) {
    await settle(auth, attempt, false);
    throw problem("invalid challenge");
  }
  await requireCode(auth, { ...login, account }, code, client, id);
  return { ...proof, account, attempt, address: client.address, ...factorOf(code) };
}

/** The challenge of a login. Throws Problem. */
export function verifiedChallenge({ tokens }: Pick<Auth, "tokens">, challenge: string): Challenge {
  try {
    return tokens.verifyChallenge(challenge);
  } catch (error) {
    throw error instanceof TokenError ? problem(`${error.reason} challenge`) : error;
  }
}

/** `reason` is why an account may not sign in although its password is right. */
async function refuse(
  auth: Auth,
  { account, attempt }: VerifiedLogin,
  { address }: Client,
  reason: keyof typeof REFUSED,
  byPasskey: boolean,
): Promise<never> {
  // A person who has tried to register an address must not learn from the password whether it had an account.
  const isLikeWrong = reason === "unconfirmed" && !byPasskey;
  await settle(auth, attempt, isLikeWrong, { event: "login_refused", userId: account.id, address, detail: { reason } });
  throw isLikeWrong ? wrongIn(auth).error() : problem(REFUSED[reason]);
}

/** A wrong code counts as a failed login. `challenge` is the id of the challenge that the code completes. */
async function requireCode(
  auth: Auth,
  { account, factors, attempt }: VerifiedLogin,
  code: FactorProof | Signed,
  client: Client,
  challenge: string | null,
): Promise<void> {
  const outcome = await guard(auth, attempt, tryCode(auth, account, { factors, code }, challenge, client));
  if (outcome === "accepted") return;
  await settle(auth, attempt, outcome !== "spent");
  if (outcome === "refused") throw refusedPasskey();
  throw outcome === "wrong" ? wrongCodeAtLogin() : problem("invalid challenge");
}

const factorOf = (code: FactorProof): Pick<VerifiedAttempt, "factor"> =>
  typeof code === "string" ? {} : { factor: "mfa/webauthn" };

const REFUSED = { disabled: "account disabled", unconfirmed: "passkey of an unconfirmed account" } as const;

const refusedPasskey = () =>
  problem("passkey refused at login", { faults: [{ field: "passkey", message: "not accepted" }] });

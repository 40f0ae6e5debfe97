import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "./auth.ts";
import type { Confirmed } from "./confirmation.ts";
import { byteArray, bytes, type Database } from "./functions.ts";
import type { CurrentSignIn } from "./session-repository.ts";
import { type Client, type CodeOutcome, requireAccepted, reserveCode, settle, spendCode } from "./throttle.ts";
import { newTotpSecret, stepOf, totpUri } from "./totp.ts";

// The second factors of a user, with pending ones.

/** A second factor that is enabled, or whose secret is pending: encrypted, in hex. */
type Factor = {
  readonly id: string;
  /** "" for the factor of `/api/mfa`. */
  readonly name: string;
  readonly secret: string | null;
  readonly pending: string | null;
};

/** Oldest first. */
export const listFactors = ({ functions }: Database, userId: string): Promise<readonly Factor[]> =>
  functions.call("factors_of($1, $2::timestamptz)", [userId, functions.now()]);

/** Second factors per account. */
export const MAX_FACTORS = 10;

/** Milliseconds for which a secret waits for its first code. */
const PENDING_FOR = 10 * 60 * 1000;

type Begun = { readonly outcome: "begun"; readonly id: string } | { readonly outcome: "enabled" | "taken" | "full" };

/** Why no enrolment begins. */
const REFUSED = { enabled: "factor enabled", taken: "factor name taken", full: "too many factors" } as const;

/**
 * Creates the pending secret of the only factor, or of one with a name, and returns it as text, and as the URI for a QR code. Apps show it
 * with `issuer`. The first factor deletes the attempts at codes. Rejects with the Problem of REFUSED.
 */
export async function beginFactor(
  { functions, factorBox, url }: Auth,
  { id: userId, username }: Account,
  name: string | null,
  issuer: string = new URL(url).hostname,
) {
  const secret = newTotpSecret();
  const limit = name === null ? null : String(MAX_FACTORS);
  const pending = bytes(factorBox.seal(secret, userId));
  const values = [userId, pending, functions.now(PENDING_FOR), functions.now(), name, limit];
  const call = "begin_factor($1, $2::bytea, $3::timestamptz, $4::timestamptz, $5, $6::integer)";
  const begun = await functions.call<Begun>(call, values);
  if (begun.outcome !== "begun") throw problem(REFUSED[begun.outcome], { name: name ?? "" });
  return { id: begun.id, secret, uri: totpUri(secret, issuer, username) };
}

/**
 * Enables a pending factor with its first code; null is the one without a name, for which it returns the backup codes, which cannot be
 * read again. The first factor ends all other sign-ins of the user. The code is spent: a login no longer accepts it. Returns null for a
 * wrong code. Rejects with Problem if no factor is pending, and with Problem "too many attempts" or "busy".
 */
export async function enableFactor(
  auth: Auth,
  { id, session }: CurrentSignIn,
  factorId: string | null,
  code: string,
  client: Client,
): Promise<readonly string[] | null> {
  const { functions, factorBox, clock } = auth;
  const { address } = client;
  const { pending, secret } = await pendingOf(auth, id, factorId);
  const attempt = await reserveCode(auth, id, client);
  const step = stepOf(secret, code, clock());
  if (step === null) {
    await settle(auth, attempt, true, { event: "code_failed", userId: id, address });
    return null;
  }
  await settle(auth, attempt, false);
  const { codes, hashes } = factorId === null ? auth.backupCodes.make(id) : { codes: [], hashes: [] };
  const values = [
    ...[id, session, bytes(pending), bytes(factorBox.reseal(pending, id)!), String(step), byteArray(hashes)],
    ...[address || null, functions.now()],
  ];
  const types = "$1, $2::uuid, $3::bytea, $4::bytea, $5::bigint, $6::bytea[], $7::inet, $8::timestamptz";
  if (!(await functions.change(`enable_factor(${types})`, values))) throw problem("no factor pending");
  return codes;
}

/** A pending secret that cannot be decrypted counts as missing: the user starts again. */
async function pendingOf(auth: Auth, userId: string, factorId: string | null) {
  const known = await listFactors(auth, userId);
  const found = known.find(({ id, name }) => (factorId === null ? name === "" : id === factorId))?.pending ?? null;
  const pending = found === null ? null : Buffer.from(found, "hex");
  const secret = pending && auth.factorBox.open(pending, userId);
  if (pending === null || secret === null) throw problem("no factor pending");
  return { pending, secret };
}

/** Spends the code and replaces all backup codes. Rejects as requireAccepted does. */
export async function replaceBackupCodes(
  auth: Auth,
  { account: { id, passwordHash }, code }: Confirmed,
  client: Client,
): Promise<readonly string[]> {
  const { functions, backupCodes } = auth;
  if (code === null) throw problem("no factor enabled");
  const { codes, hashes } = backupCodes.make(id);
  const replace = (sent: string | null) => {
    const values = [id, passwordHash, sent, byteArray(hashes), client.address || null, functions.now()];
    const types = "$1, $2, $3::jsonb, $4::bytea[], $5::inet, $6::timestamptz";
    return functions.call<CodeOutcome | null>(`replace_backup_codes(${types})`, values);
  };
  requireAccepted(await spendCode(auth, code, replace, client));
  return codes;
}

/** Whether another factor is still enabled. */
type Disabled = { readonly hasFactor: boolean };

/**
 * Spends the code and removes an app or a passkey, by its id, or the app whose code is sent. Other sessions that may have proved it have to
 * prove another one, or end. Rejects as requireAccepted does.
 */
export async function disableFactor(
  auth: Auth,
  { account: { id: userId, passwordHash }, code }: Confirmed,
  id: string | null,
  session: string | null,
  client: Client,
): Promise<Disabled> {
  const { functions } = auth;
  if (code === null) throw problem("no factor enabled");
  const disable = (sent: string | null) => {
    const values = [userId, id, session, passwordHash, sent, client.address || null, functions.now()];
    const types = "$1, $2::uuid, $3::uuid, $4, $5::jsonb, $6::inet, $7::timestamptz";
    return functions.change<CodeOutcome<Disabled> | null>(`disable_factor(${types})`, values);
  };
  const tried = await spendCode(auth, code, disable, client);
  // Removed meanwhile.
  if (tried.outcome === "none" && id !== null) throw problem("no such factor");
  return { hasFactor: requireAccepted(tried).hasFactor };
}

/** Removes an app or a passkey, whatever the session has proved. */
export async function removeFactor(
  { functions }: Database,
  { userId, session }: { readonly userId: string; readonly session: string },
  id: string,
  address: string,
): Promise<void> {
  const values = [userId, session, id, address || null, functions.now()];
  await functions.change("remove_factor($1, $2::uuid, $3::uuid, $4::inet, $5::timestamptz)", values);
}

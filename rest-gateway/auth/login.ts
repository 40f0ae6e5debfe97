import { createHash } from "node:crypto";
import { verify as verifyHash } from "@node-rs/argon2";
import { ApiError } from "../../db/errors.ts";
import type { Transactions } from "../../db/transaction.ts";
import { REFRESH_SECONDS, type TokenPair, type Tokens } from "../principal/tokens.ts";
import { GATEWAY } from "./gateway.ts";
import { MAX_PASSWORD } from "./passwords.ts";

type Account = {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly permissions: readonly string[];
  readonly passwordHash: string;
  readonly disabled: boolean;
};

const MAX_USERNAME = 254;
/** Of random bytes. Verified when there is no such account, so that both answers take the same time. */
const DUMMY_HASH = "$argon2id$v=19$m=19456,t=2,p=1$9xRI96Q8p9Nl11NO9unMbQ$bkXvAWEj9tu3pQtfT9B02T92gGv1rcxF/HfFRtXjbGA";

/** Signs a user in with username (or e-mail) and password. `body` is `{ username, password }`; throws ApiError. */
export async function login(database: Transactions, tokens: Tokens, body: unknown): Promise<TokenPair> {
  const { username, password } = readCredentials(body);
  const account = await findAccount(database, username);
  // Passwords are compared in one Unicode form, the one they were hashed in.
  const matches = await verifyHash(account?.passwordHash ?? DUMMY_HASH, password.normalize("NFC"));
  if (!account || !matches) throw wrongCredentials();
  if (account.disabled) throw accountDisabled();

  const pair = tokens.issuePair(account);
  await keepRefreshToken(database, account.id, pair.refreshToken);
  return pair;
}

function readCredentials(body: unknown): { username: string; password: string } {
  const { username, password } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const isText = (value: unknown, max: number): value is string =>
    typeof value === "string" && value !== "" && value.length <= max;
  if (!isText(username, MAX_USERNAME) || !isText(password, MAX_PASSWORD)) throw missingCredentials();
  return { username, password };
}

async function findAccount(database: Transactions, username: string): Promise<Account | null> {
  const statement = {
    text: `select json_build_object('id', user_id::text, 'name', name, 'role', role, 'permissions', permissions,
             'passwordHash', password_hash, 'disabled', disabled)
           from auth_api.find_account($1)`,
    values: [username],
  };
  const [result] = await database.run(GATEWAY, [statement]);
  const row = result!.rows[0]?.[0];
  return row ? JSON.parse(row.toString()) : null;
}

async function keepRefreshToken(database: Transactions, userId: string, token: string): Promise<void> {
  const hash = createHash("sha256").update(token).digest("hex");
  const expiresAt = new Date(Date.now() + REFRESH_SECONDS * 1000).toISOString();
  const text = "select auth_api.keep_refresh_token($1::bigint, decode($2, 'hex'), $3::timestamptz)";
  await database.run(GATEWAY, [{ text, values: [userId, hash, expiresAt] }]);
}

const missingCredentials = () =>
  new ApiError({ status: 400, code: "VALIDATION_ERROR", message: "username and password are required" });
const wrongCredentials = () =>
  new ApiError({ status: 401, code: "AUTH_REQUIRED", message: "wrong username or password" });
const accountDisabled = () =>
  new ApiError({ status: 403, code: "PERMISSION_DENIED", message: "this account is disabled" });

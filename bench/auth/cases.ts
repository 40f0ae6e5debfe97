import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";

const PATH = "/users?limit=1";

/** Each case is the same request; the contestants differ in the credential. */
export const CASES: readonly Case[] = [
  {
    name: "read",
    about: `\`GET /rest/v1${PATH}\``,
    writes: false,
    ownFields: [],
    refused: [],
    requests: () => [requestOf({ apikey: ANON_KEY })],
  },
];

export const requestOf = (headers: HttpRequest["headers"]): HttpRequest => ({
  method: "GET",
  path: PATH,
  headers: { Accept: "application/json", ...headers },
  body: null,
});

/** A kind of credential that a request can carry. */
export type Credential = { readonly name: string; readonly about: string; headers(): HttpRequest["headers"] };

/** The credentials of the user, which `signUp` writes to the database. */
const KEY = `cs_user_${"k".repeat(43)}`;
const SESSION = "s".repeat(43);
export const USER = 1;
export const PASSWORD = "Correct-Horse-7!";

export const ANONYMOUS: Credential = {
  name: "anon key",
  about: "only the anon key",
  headers: () => ({ apikey: ANON_KEY }),
};
export const BEARER: Credential = {
  name: "Bearer",
  about: "an access token and the anon key",
  headers: () => ({ apikey: ANON_KEY, Authorization: bearer(USER) }),
};
export const USER_KEY: Credential = {
  name: "X-API-Key",
  about: "an opaque API key of a user",
  headers: () => ({ "X-API-Key": KEY }),
};
export const COOKIE: Credential = {
  name: "session",
  about: "the cookie of a session and the anon key",
  headers: () => ({ apikey: ANON_KEY, Cookie: `SESSION=${SESSION}` }),
};
export const BASIC: Credential = {
  name: "Basic",
  about: "e-mail address and password, and the anon key",
  headers: () => ({
    apikey: ANON_KEY,
    Authorization: `Basic ${Buffer.from(`user${USER}@example.com:${PASSWORD}`).toString("base64")}`,
  }),
};
export const CREDENTIALS: readonly Credential[] = [ANONYMOUS, BEARER, USER_KEY, COOKIE, BASIC];

/** Executed after the accounts are created. Without triggers, which would end the epoch of the tokens of the bench. */
export const signUp = (passwordHash: string): string => `
  set session_replication_role = replica;
  update auth_private.accounts set password_hash = '${passwordHash}' where user_id = ${USER};
  insert into auth_private.login_emails (user_id, email) values (${USER}, 'user${USER}@example.com');
  reset session_replication_role;
  insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash)
  values ('user', ${USER}, 'of the bench', 'cs_user_kkkkkk', sha256('${KEY}'));
  insert into auth_private.sessions (cookie_hash, user_id, epoch, started_at, seen_at, expires_at)
  values (sha256('${SESSION}'), ${USER}, 0, now(), now(), now() + interval '1 day');`;

import type { Case, HttpRequest } from "../case.ts";
import { ANON_KEY, bearer } from "../credentials.ts";

const PATH = "/users?limit=1";

/** A case is the same request each time; who sends it is a matter of the contestant. */
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

/** A way to sign in. `key`, `session` and `password` are what the database was given. */
export type Way = { readonly name: string; readonly about: string; headers(): HttpRequest["headers"] };

/** What somebody is signed in with; `SQL` puts it into the database. */
const KEY = `cs_user_${"k".repeat(43)}`;
const SESSION = "s".repeat(43);
export const USER = 1;
export const PASSWORD = "Correct-Horse-7!";

export const ANONYMOUS: Way = { name: "anon key", about: "the anon key alone", headers: () => ({ apikey: ANON_KEY }) };
export const BEARER: Way = {
  name: "Bearer",
  about: "an access token beside it",
  headers: () => ({ apikey: ANON_KEY, Authorization: bearer(USER) }),
};
export const KEY_OF_USER: Way = {
  name: "X-API-Key",
  about: "an opaque key of a user, alone",
  headers: () => ({ "X-API-Key": KEY }),
};
export const COOKIE: Way = {
  name: "session",
  about: "the cookie of a session beside the anon key",
  headers: () => ({ apikey: ANON_KEY, Cookie: `SESSION=${SESSION}` }),
};
export const BASIC: Way = {
  name: "Basic",
  about: "e-mail and password beside the anon key",
  headers: () => ({
    apikey: ANON_KEY,
    Authorization: `Basic ${Buffer.from(`user${USER}@example.com:${PASSWORD}`).toString("base64")}`,
  }),
};
export const WAYS: readonly Way[] = [ANONYMOUS, BEARER, KEY_OF_USER, COOKIE, BASIC];

/** Runs after the users have their accounts. Without triggers: the tokens of all benches are of the first epoch. */
export const signUp = (passwordHash: string): string => `
  set session_replication_role = replica;
  update auth_private.accounts set password_hash = '${passwordHash}' where user_id = ${USER};
  reset session_replication_role;
  insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash)
  values ('user', ${USER}, 'of the bench', 'cs_user_kkkkkk', sha256('${KEY}'));
  insert into auth_private.sessions (id_hash, user_id, epoch, started_at, seen_at, expires_at)
  values (sha256('${SESSION}'), ${USER}, 0, now(), now(), now() + interval '1 day');`;

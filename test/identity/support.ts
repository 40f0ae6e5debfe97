import { createHash, randomBytes } from "node:crypto";
import { CsrfTokens } from "../../identity/credentials.ts";
import { newKey } from "../../identity/secrets.ts";
import { JWT_SECRET, type TestService } from "../support/service.ts";

export const PASSWORD = "Correct-Horse-7!";
export const basic = (username: string, password = PASSWORD) =>
  `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
export const hashOf = (secret: string) => createHash("sha256").update(secret).digest();

type Headers = Readonly<Record<string, string>>;

/** A new key of a user, or of the service if `userId` is null. */
export async function makeKey(service: TestService, userId: number | null, expiresAt: Date | null = null) {
  const kind = userId === null ? "service" : "user";
  const { key, prefix } = newKey(kind);
  await service.database.owner.query(
    "insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash, expires_at) values ($1, $2, 'of a test', $3, $4, $5)",
    [kind, userId, prefix, hashOf(key), expiresAt],
  );
  return key;
}

/** The id of a new session of a user, which ends the previous one. */
export async function makeSession({ database }: TestService, userId: number, seconds = 3600): Promise<string> {
  const id = randomBytes(32).toString("base64url");
  await database.owner.query("delete from auth_private.sessions where user_id = $1 and cookie_hash is not null", [
    userId,
  ]);
  await database.owner.query(
    `insert into auth_private.sessions (cookie_hash, user_id, epoch, started_at, seen_at, expires_at)
     select $1, user_id, epoch, now(), now(), now() + make_interval(secs => $3) from auth_private.accounts where user_id = $2`,
    [hashOf(id), userId, seconds],
  );
  return id;
}

/** The cookie that a browser sends with a session, and the token that a page of this service adds. */
export const cookieOf = (session: string): Headers => ({ cookie: `theme=dark; SESSION=${session}` });
export const csrfOf = (session: string): Headers => ({ "x-csrf-token": new CsrfTokens(JWT_SECRET).of(session) });

export const KINDS = ["Bearer", "key as Bearer", "X-API-Key", "apikey", "Basic", "session"] as const;
export type Kind = (typeof KINDS)[number];

/** Headers with a credential of a user, for all methods. */
export async function credentialsOf(kind: Kind, service: TestService, id: 1 | 2): Promise<Headers> {
  const name = id === 1 ? "ada" : "bob";
  switch (kind) {
    case "Bearer":
      return { authorization: `Bearer ${await accessToken(service, name)}` };
    case "key as Bearer":
      return { authorization: `Bearer ${await makeKey(service, id)}` };
    case "X-API-Key":
      return { "x-api-key": await makeKey(service, id) };
    case "apikey":
      return { apikey: await makeKey(service, id) };
    case "Basic":
      return { authorization: basic(name) };
    case "session": {
      const session = await makeSession(service, id);
      return { ...cookieOf(session), ...csrfOf(session) };
    }
  }
}

/** An access token as a login returns it, with the current epoch of the account. */
async function accessToken({ service, database }: TestService, name: string): Promise<string> {
  const { rows } = await database.owner.query(
    `select u.id::text, u.name, a.role, a.permissions, a.epoch from auth_private.accounts as a
     join public.users as u on u.id = a.user_id where a.username = $1`,
    [name],
  );
  return service.tokens.issuePair(rows[0]).accessToken;
}

export const INTERFACES = ["/users", "/rest/v1", "/graphql"] as const;
export type Interface = (typeof INTERFACES)[number];

/**
 * Sets the age of user 1 to its current value, which only that user may do. Returns the status, or for GraphQL the codes
 * of its errors.
 */
export async function act(service: TestService, at: Interface, headers: Headers): Promise<number | string> {
  const anon = at === "/rest/v1" && !("apikey" in headers) ? { apikey: service.service.tokens.issueKey("anon") } : {};
  const all = { "content-type": "application/json", ...anon, ...headers };
  if (at === "/graphql") {
    const body = JSON.stringify({ query: "mutation { deleteArticle(id: 999999999) }" });
    const response = await fetch(`${service.url}/graphql`, { method: "POST", headers: all, body });
    const { errors = [] } = (await response.json()) as any;
    return errors[0]?.extensions.code ?? response.status;
  }
  const url = at === "/users" ? `${service.url}/users/1` : `${service.url}/rest/v1/users?id=eq.1`;
  const response = await fetch(url, { method: "PATCH", headers: all, body: '{"age":36}' });
  await response.text();
  return response.status;
}

/** The outcome of `act` with a valid credential. */
export const DONE: Readonly<Record<Interface, number>> = { "/users": 200, "/rest/v1": 204, "/graphql": 200 };
/** The outcome of `act` with an invalid credential. */
export const REFUSED: Readonly<Record<Interface, number | string>> = {
  "/users": 401,
  "/rest/v1": 401,
  "/graphql": "AUTH_REQUIRED",
};

import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import type pg from "pg";
import { quoteIdentifier } from "../sql.ts";
import { withClient } from "./client.ts";

/** What the passwords of the logins are derived from. */
export const SOURCE = "JWT_SECRET (or JWT_PRIVATE_KEY)";

/** Serializes services that start concurrently on one database. */
export const LOCK = "select pg_advisory_xact_lock(hashtext('content-service:provision'))";

export const passwordOf = (role: string, secret: string): string =>
  createHmac("sha256", secret).update(`login:${role}`).digest("base64url");

/** The statement that lets a role sign in with this password. */
export const passwordStatement = (role: string, password: string): string =>
  `alter role ${quoteIdentifier(role)} login noinherit password '${scramVerifier(password)}'`;

/** The hash that Postgres stores. Sent instead of the password, because the server may log the statement. */
function scramVerifier(password: string): string {
  // Iterations slow down the guessing of weak passwords. These have 256 bits, and each new connection would pay for them.
  const iterations = 1;
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, iterations, 32, "sha256");
  const clientKey = createHmac("sha256", salted).update("Client Key").digest();
  const storedKey = createHash("sha256").update(clientKey).digest("base64");
  const serverKey = createHmac("sha256", salted).update("Server Key").digest("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}

/** A login that cannot sign in. */
export type Refusal = { readonly login: string; readonly hasOtherPassword: boolean; readonly message: string };

/** Signs in with each of these connection strings. Changes nothing. Rejects if the server does not accept connections. */
export async function refusalsOf(urls: readonly string[]): Promise<readonly Refusal[]> {
  const found: Refusal[] = [];
  for (const url of urls) {
    const login = decodeURIComponent(new URL(url).username);
    await withClient(url, async () => {}).catch((error: Error) => {
      const { code = "", message } = error.cause as pg.DatabaseError;
      if (!code.startsWith("28")) throw error;
      found.push({ login, hasOtherPassword: isOtherPassword(error), message });
    });
  }
  return found;
}

export const isOtherPassword = (error: Error): boolean => (error.cause as pg.DatabaseError).code === "28P01";

export const withOtherPasswords = (refusals: readonly Refusal[]): readonly string[] =>
  refusals.flatMap(({ login, hasOtherPassword }) => (hasOtherPassword ? [login] : []));

/** As a step of an upgrade. */
export const passwordStep = (logins: readonly string[]): string =>
  `the passwords of the logins ${logins.join(", ")}: those that follow from ${SOURCE} do not fit, as after a restore or with a new secret`;

/**
 * Why the login of `client` may not set the passwords of these logins, with the statements of a superuser that let it; null if it may.
 * Before PostgreSQL 16 only a superuser changes a login with the attribute replication, and since then each login needs the admin option.
 */
export async function whyNotSettable(
  client: pg.Client,
  logins: readonly string[],
  then: string,
): Promise<string | null> {
  const { rows } = await client.query<{ user: string; before: string[]; after: string[] }>(
    `select quote_ident(current_user) as user,
       case when owner.rolcreaterole then '{}' else array[format('alter role %I createrole', current_user)] end
         || array_agg(format(case when is_old then 'alter role %I noreplication' else 'grant %I to %I with admin option' end, r.rolname, current_user)
              order by r.rolname) filter (where is_fixed) as before,
       coalesce(array_agg(format('alter role %I replication', r.rolname) order by r.rolname) filter (where is_old and is_fixed), '{}') as after
     from pg_roles as r join pg_roles as owner on owner.rolname = current_user,
       lateral (select current_setting('server_version_num')::integer < 160000 as is_old) as server,
       lateral (select case when is_old then r.rolreplication else not pg_has_role(r.oid, 'member with admin option') end as is_fixed) as rule
     where r.rolname = any ($1) and not owner.rolsuper
     group by owner.rolcreaterole`,
    [logins],
  );
  const [found] = rows;
  if (found === undefined || found.before.length === 0) return null;
  const restore = found.after.length > 0 ? `, and then let a superuser run: ${statements(found.after)}` : "";
  return `${found.user} may not set them: as a superuser of the server, run: ${statements(found.before)} Then ${then}${restore}`;
}

const statements = (all: readonly string[]) => all.map((each) => `${each};`).join(" ");

// Another schema auth than that of the service, such as that of Supabase.
import pg from "pg";
import { USER_ID_TYPES, type UserIdType } from "../../config/modules.ts";
import { MODULES, MODULES_WITHOUT_CALLER, type Module } from "../modules/modules.ts";
import { MigrationFailure } from "./migration-failure.ts";

/** Whether a database has a schema `auth` of something else. */
export async function hasForeignAuth(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ isForeign: boolean }>(`
    select not exists (select from pg_type as t where t.typnamespace = n.oid and t.typname = 'user_id') as "isForeign"
    from pg_namespace as n
    where n.nspname = 'auth'`);
  return rows[0]?.isForeign ?? false;
}

/** The modules as they are in a database. */
export const modulesFor = async (client: pg.ClientBase): Promise<readonly Module[]> =>
  (await hasForeignAuth(client)) ? MODULES_WITHOUT_CALLER : MODULES;

/** Rejects with MigrationFailure for a database in which these modules cannot be added, or whose ids have another type. */
export async function refuseForeign(
  client: pg.ClientBase,
  {
    added,
    isInstalled,
    userId,
  }: { readonly added: readonly Module[]; readonly isInstalled: boolean; readonly userId: UserIdType | "" },
): Promise<void> {
  const isForeign = await hasForeignAuth(client);
  await refuseForeignSchemas(client, added, isForeign);
  if (isForeign) await refuseOtherCallers(client);
  if (isInstalled || isForeign) await refuseOtherIds(client, userId);
}

/** A schema of the same name is of something else: the modules would mix with it. */
async function refuseForeignSchemas(
  client: pg.ClientBase,
  added: readonly Module[],
  isForeign: boolean,
): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select nspname as name from pg_namespace where nspname = any ($1) order by nspname",
    [added.flatMap(({ schemas }) => schemas)],
  );
  const taken = added.flatMap(({ name, schemas }) => {
    const found = name === "auth" && isForeign ? "auth" : rows.find((row) => schemas.includes(row.name))?.name;
    return found === undefined ? [] : [{ name, schema: found }];
  });
  if (taken.length === 0) return;
  const named = taken.map(({ name, schema }) => `${schema} (module ${name})`).join(", ");
  throw new MigrationFailure(
    `this database has schemas that are not of this service, with names that its modules need: ${named}. ` +
      `${adviceFor(added, taken)}To serve the database unchanged, with the tokens of your own issuer, set MIGRATE=off.`,
  );
}

function adviceFor(added: readonly Module[], taken: readonly { readonly name: string }[]): string {
  const left = added
    .map(({ name }) => name)
    .filter((name) => name !== "caller" && !taken.some((each) => each.name === name));
  const users = taken.some(({ name }) => name === "auth") ? " Users then sign in where they do now." : "";
  if (left.length > 0) return `To use the other modules, set MODULES=${left.join()}.${users} `;
  // The others are installed.
  const isMore = !added.some(({ name }) => name === "caller");
  return isMore ? `To use the other modules, take ${taken.map(({ name }) => name).join()} out of MODULES. ` : "";
}

/** Policies ask `auth.uid()` who the caller is, so that of another schema has to read the claims that the service passes. */
async function refuseOtherCallers(client: pg.ClientBase): Promise<void> {
  const type = await userIdIn(client);
  if (type === null)
    throw new MigrationFailure(`${NO_CALLER} a function auth.uid() that returns ${USER_ID_TYPES.join(", ")}`);
  const id = SAMPLES[type];
  const read = "select auth.uid()::text as id from set_config('request.jwt.claims', $1, true)";
  const found = await client
    .query<{ id: string | null }>(read, [JSON.stringify({ sub: id })])
    .catch((error: pg.DatabaseError) => {
      if (!(error instanceof pg.DatabaseError)) throw error;
      throw new MigrationFailure(`${NO_CALLER} a function auth.uid() that the owner may call: ${error.message}`);
    });
  if (found.rows[0]!.id !== id)
    throw new MigrationFailure(
      `${NO_CALLER} a function auth.uid() that returns the subject of the setting request.jwt.claims`,
    );
}

export const SAMPLES: Readonly<Record<UserIdType, string>> = {
  uuid: "6b1f3c9e-0a52-4d7e-9c41-2f8d5e7a1b30",
  bigint: "7",
  integer: "7",
  text: "seven",
};

const NO_CALLER =
  "this database has a schema auth that is not of this service. The modules can be used beside it if it has";

/** The type of ids is chosen once: tables, functions and policies depend on it. */
async function refuseOtherIds(client: pg.ClientBase, userId: UserIdType | ""): Promise<void> {
  const type = await userIdIn(client);
  if (userId === "" || type === userId) return;
  throw new MigrationFailure(
    `AUTH_USER_ID is ${userId}, but the ids of users in this database are ${type}: the type was chosen at installation.`,
  );
}

/** The type of the ids of users in a database with modules, or with another schema `auth`; null if there is none of the known types. */
export async function userIdIn(client: pg.ClientBase): Promise<UserIdType | null> {
  const { rows } = await client.query<{ type: string | null }>(`
    select coalesce(
      (select format_type(t.typbasetype, null) from pg_type as t where t.typnamespace = n.oid and t.typname = 'user_id'),
      (select format_type(p.prorettype, null) from pg_proc as p where p.pronamespace = n.oid and p.proname = 'uid' and p.pronargs = 0)
    ) as type
    from pg_namespace as n
    where n.nspname = 'auth'`);
  return USER_ID_TYPES.find((type) => type === rows[0]?.type) ?? null;
}

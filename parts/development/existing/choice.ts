import { type ModuleName, USER_ID_TYPES, type UserIdType } from "../../../config/modules.ts";
import { MODULES } from "../../../db/modules/modules.ts";
import type { Column, Role, Survey, Table } from "./survey.ts";
import { SERVICE_ROLES } from "./survey-queries.ts";

/** How the service is used with a database, and why. */
export type Choice = {
  readonly migrate: "on" | "modules" | "off";
  /** Why it is not `on`; null if it is. */
  readonly reason: string | null;
  /** The modules to install, unless it is `off`. */
  readonly modules: readonly ModuleName[];
  readonly users: Users | null;
  /** The type of the ids of users. */
  readonly userId: UserIdType;
  readonly schemas: readonly string[];
  readonly roles: CallerRoles;
};

/** The table of users, and its columns. */
export type Users = {
  readonly table: Table;
  readonly key: string;
  readonly id: UserIdType;
  readonly email: string;
  /** The column with hashes of passwords; null if there is none, or more than one. */
  readonly password: Column | null;
};

/**
 * Roles of the application whose rights the callers of the service get. Null if none is clear; `others` are then to choose from. If the
 * role of anonymous callers is the only one, signed-in users have its rights too.
 */
export type CallerRoles = {
  readonly anonymous: Role | null;
  readonly signedIn: Role | null;
  readonly others: readonly Role[];
};

/** What applications need: the feed would change their tables. */
const NEEDED: readonly ModuleName[] = ["auth", "tasks", "channels"];

export function choose(survey: Survey): Choice {
  const { tables, installedId, foreignSchemas } = survey;
  const reason = reasonAgainstModules(survey);
  const users = findUsers(tables, reason === null ? installedId : null);
  const isFree = (name: ModuleName) => !schemasOf(name).some((schema) => foreignSchemas.includes(schema));
  return {
    migrate: reason !== null ? "off" : survey.otherTool !== null ? "modules" : "on",
    reason: reason ?? (survey.otherTool && `${survey.otherTool} is of another tool, which keeps migrating your tables`),
    modules: NEEDED.filter(isFree),
    users,
    userId: installedId ?? users?.id ?? idWithoutEmail(tables) ?? "uuid",
    schemas: servedSchemas(survey),
    roles: callerRoles(survey, reason !== null),
  };
}

const schemasOf = (name: ModuleName): readonly string[] => MODULES.find((module) => module.name === name)!.schemas;

/** Whether it is a project of Supabase, whose parts have schemas beside those of the application. */
export const isSupabase = ({ foreignSchemas, schemas }: Survey): boolean =>
  foreignSchemas.includes("auth") && schemas.some(({ name }) => /^(storage|_realtime|supabase_migrations)$/.test(name));

/** Why the service must not install its modules; null if it may. */
function reasonAgainstModules({ foreignSchemas, tables, login }: Survey): string | null {
  const optional = NEEDED.filter((name) => name !== "auth").flatMap(schemasOf);
  if (foreignSchemas.some((schema) => !optional.includes(schema)))
    return `the schemas ${foreignSchemas.join(", ")} are of something else, and the modules of the service need these names`;
  const isOwner = tables.length === 0 || tables.some(({ isOwned, isTable }) => isOwned && isTable);
  return login.isSuperuser || isOwner ? null : `${login.name} owns no table here`;
}

const USERS = /^(app_|site_)?(users?|accounts?|members?|people|persons?|customers?|profiles?|listeners?|players?)$/i;
const EMAIL = /^((login|primary|user)_?)?(e_?)?mail(_?address)?$/i;
const PASSWORD =
  /^((crypted|encrypted|hashed)_?)?(passw(or)?d|pwd)$|^(passw(or)?d|pass|pwd?)_?(hash|digest|encrypted)$|^(bcrypt|argon2(id?)?)(_?hash)?$/i;
const TEXT = /^(text|character)/;
const IDS: Readonly<Record<string, UserIdType>> = {
  ...Object.fromEntries(USER_ID_TYPES.map((type) => [type, type])),
  "character varying": "text",
};

/** A table with an e-mail and one key column; of several the one with hashes of passwords or a usual name, to which most others refer. */
function findUsers(tables: readonly Table[], installed: UserIdType | null): Users | null {
  const found = tables.flatMap((table): Users[] => {
    const [key, ...more] = table.key;
    const id = IDS[table.columns.find(({ name }) => name === key)?.base.replace(/\(.*/, "") ?? ""];
    const email = table.columns.find(({ name }) => EMAIL.test(name));
    if (!table.isTable || !key || more.length > 0 || !id || !email || isOfUsers(table)) return [];
    return installed === null || installed === id
      ? [{ table, key, id, email: email.name, password: passwordIn(table) }]
      : [];
  });
  const referring = ({ table }: Users) =>
    tables.filter(({ references }) => references.some((each) => each.table === table.sql)).length;
  const rank = (users: Users) =>
    (/^users?$/i.test(users.table.name) ? 2000 : USERS.test(users.table.name) ? 1000 : 0) +
    (users.password === null ? 0 : 3000) +
    referring(users);
  return found.filter((users) => rank(users) > 0).sort((a, b) => rank(b) - rank(a))[0] ?? null;
}

function passwordIn({ columns }: Table): Column | null {
  const found = columns.filter(({ name, base }) => PASSWORD.test(name) && TEXT.test(base));
  return found.length === 1 ? found[0]! : null;
}

/** `user_emails` has the e-mails of the users in another table. */
const isOfUsers = ({ name, references }: Table): boolean =>
  /_e?mails?$/i.test(name) && references.some(({ table }) => isNamedUsers(table));

const isNamedUsers = (sql: string): boolean => USERS.test(sql.slice(sql.lastIndexOf(".") + 1).replaceAll('"', ""));

/** The type of the key of a table of users whose e-mails another table has. */
function idWithoutEmail(tables: readonly Table[]): UserIdType | null {
  const named = tables.filter(isOfUsers).flatMap(({ references }) => references.map(({ table }) => table));
  const users = tables.find(({ sql, key }) => named.includes(sql) && isNamedUsers(sql) && key.length === 1);
  return IDS[users?.columns.find(({ name }) => name === users.key[0])?.base ?? ""] ?? null;
}

/** Of Supabase, beside those of the application. */
const PLATFORM = /^(_?auth|_?realtime|storage|vault|graphql(_public)?|net|cron|pgsodium|extensions|supabase_\w+)$/;

/**
 * What PostgREST serves, if a role has it; or the schemas with tables that others than their owners may use; without any, all with tables.
 * The first is the one that requests use which name none: public, or the one with the most of these tables.
 */
function servedSchemas(survey: Survey): readonly string[] {
  const isOwn = (name: string) => !isSupabase(survey) || !PLATFORM.test(name);
  const named = survey.postgrestSchemas?.split(",").map((name) => name.trim().replace(/^"(.*)"$/, "$1")) ?? [];
  const existing = named.filter((name) => survey.schemas.some((schema) => schema.name === name) && isOwn(name));
  if (existing.length > 0) return existing;
  const tables = survey.tables.filter(({ schema }) => isOwn(schema));
  const granted = tables.filter(({ grantees }) => grantees.length > 0);
  const found = Map.groupBy(granted.length > 0 ? granted : tables, ({ schema }) => schema);
  const rank = (name: string) => (name === "public" ? Number.POSITIVE_INFINITY : found.get(name)!.length);
  return found.size === 0 ? ["public"] : [...found.keys()].sort((a, b) => rank(b) - rank(a));
}

const ANONYMOUS = /(anon|anonymous|web|guest|visitor)$/i;
const SIGNED_IN = /(user|customer|member|listener|authenticated|signed_?in|client)$/i;

/** With modules, callers have the roles `anon` and `authenticated`; otherwise those that the login may become. */
function callerRoles({ roles, tables }: Survey, isServedAsIs: boolean): CallerRoles {
  const used = new Set(tables.flatMap(({ grantees }) => grantees));
  const candidates = roles.filter(
    ({ name, canLogin, bypassesPolicies }) => used.has(name) && !canLogin && !bypassesPolicies,
  );
  const own = candidates.filter(({ name }) => isServedAsIs || !SERVICE_ROLES.includes(name));
  const anonymous = onlyOne(own, ANONYMOUS);
  const signedIn = onlyOne(own, SIGNED_IN) ?? (own.length === 1 ? anonymous : null);
  return { anonymous, signedIn, others: own.filter((role) => role !== anonymous && role !== signedIn) };
}

/** The role with such a name, if there is only one. */
function onlyOne(roles: readonly Role[], pattern: RegExp): Role | null {
  const found = roles.filter(({ name }) => pattern.test(name));
  return found.length === 1 ? found[0]! : null;
}

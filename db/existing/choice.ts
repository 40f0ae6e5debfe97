import { USER_ID_TYPES, type UserIdType } from "../../config/modules.ts";
import type { Role, Survey, Table } from "./survey.ts";
import { SERVICE_ROLES } from "./survey-queries.ts";

/** How the service is used with a database, and why. */
export type Choice = {
  readonly migrate: "on" | "modules" | "off";
  /** Why it is not `on`; null if it is. */
  readonly reason: string | null;
  readonly users: Users | null;
  /** The type of the ids of users. */
  readonly userId: UserIdType;
  readonly schemas: readonly string[];
  readonly roles: CallerRoles;
};

/** The table of users, and its columns. */
export type Users = { readonly table: Table; readonly key: string; readonly id: UserIdType; readonly email: string };

/**
 * Roles of the application whose rights the callers of the service get. Null if none is clear; `others` are then to choose from. If the
 * role of anonymous callers is the only one, signed-in users have its rights too.
 */
export type CallerRoles = {
  readonly anonymous: Role | null;
  readonly signedIn: Role | null;
  readonly others: readonly Role[];
};

export function choose(survey: Survey): Choice {
  const { tables, installedId } = survey;
  const reason = reasonAgainstModules(survey);
  const users = findUsers(tables, reason === null ? installedId : null);
  return {
    migrate: reason !== null ? "off" : survey.otherTool !== null ? "modules" : "on",
    reason: reason ?? (survey.otherTool && `${survey.otherTool} is of another tool, which keeps migrating your tables`),
    users,
    userId: installedId ?? users?.id ?? "uuid",
    schemas: servedSchemas(tables),
    roles: callerRoles(survey, reason !== null),
  };
}

/** Why the service must not install its modules; null if it may. */
function reasonAgainstModules({ foreignSchemas, tables, login }: Survey): string | null {
  if (foreignSchemas.length > 0)
    return `the schemas ${foreignSchemas.join(", ")} are of something else, and the modules of the service need these names`;
  const isOwner = tables.length === 0 || tables.some(({ isOwned, isTable }) => isOwned && isTable);
  return login.isSuperuser || isOwner ? null : `${login.name} owns no table here`;
}

const USERS = /^(app_|site_)?(users?|accounts?|members?|people|persons?|customers?|profiles?|listeners?|players?)$/i;
const EMAIL = /^(e_?)?mail(_address)?$/i;
const IDS: Readonly<Record<string, UserIdType>> = {
  ...Object.fromEntries(USER_ID_TYPES.map((type) => [type, type])),
  "character varying": "text",
};

/** A table with an e-mail and one key column; of several the one with a usual name to which most others refer. */
function findUsers(tables: readonly Table[], installed: UserIdType | null): Users | null {
  const found = tables.flatMap((table): Users[] => {
    const [key, ...more] = table.key;
    const id = IDS[table.columns.find(({ name }) => name === key)?.base.replace(/\(.*/, "") ?? ""];
    const email = table.columns.find(({ name }) => EMAIL.test(name));
    if (!table.isTable || !key || more.length > 0 || !id || !email) return [];
    return installed === null || installed === id ? [{ table, key, id, email: email.name }] : [];
  });
  const referring = ({ table }: Users) =>
    tables.filter(({ references }) => references.some((each) => each.table === table.sql)).length;
  const rank = (users: Users) =>
    (/^users?$/i.test(users.table.name) ? 2000 : USERS.test(users.table.name) ? 1000 : 0) + referring(users);
  return found.filter((users) => rank(users) > 0).sort((a, b) => rank(b) - rank(a))[0] ?? null;
}

/** The schemas with tables that others than their owners may use; without any, all with tables. */
function servedSchemas(tables: readonly Table[]): readonly string[] {
  const granted = tables.filter(({ grantees }) => grantees.length > 0);
  const names = new Set((granted.length > 0 ? granted : tables).map(({ schema }) => schema));
  return names.size === 0 ? ["public"] : [...names].sort((a, b) => Number(b === "public") - Number(a === "public"));
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

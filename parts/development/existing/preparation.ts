import type { Choice } from "./choice.ts";
import type { Login, Role, Survey } from "./survey.ts";

/** A new login has this name, for a database that is served as it is. */
const API_LOGIN = "content_api";

/** A statement that the login of the URL may not run itself. */
export type Preparation = {
  readonly sql: string;
  /** Who may run it, other than superusers; null if there is none. */
  readonly owner: string | null;
};

/** What must be run before the start. Empty if nothing is missing. */
export function preparationFor(survey: Survey, choice: Choice): readonly Preparation[] {
  return choice.migrate === "off"
    ? loginFor(survey, choice).map((sql) => ({ sql, owner: null }))
    : [...rightsFor(survey, choice), ...grantsFor(survey, choice)];
}

/** `As a superuser of the server`, or also as the owner of what is granted. */
export function whoRuns(statements: readonly Preparation[]): string {
  const [owner, ...others] = new Set(statements.map((each) => each.owner));
  return owner == null || others.length > 0
    ? "As a superuser of the server"
    : `As ${owner}, or as a superuser of the server`;
}

/** The roles that callers may have in a database that is served as it is: those with rights on what is served. */
export function rolesOfCallers({ roles, tables }: Survey, { schemas }: Pick<Choice, "schemas">): readonly Role[] {
  const used = new Set(tables.filter(({ schema }) => schemas.includes(schema)).flatMap(({ grantees }) => grantees));
  return roles.filter(({ name, canLogin, bypassesPolicies }) => used.has(name) && !canLogin && !bypassesPolicies);
}

/** Whether another login should be in the URL: the service becomes the roles of callers, so its login should have no rights itself. */
function needsLogin({ login, tables }: Survey, callers: readonly Role[]): boolean {
  const hasRights = login.bypassesPolicies || tables.some(({ isOwned }) => isOwned);
  return callers.length > 0 && (hasRights || !callers.some(({ isMine }) => isMine));
}

/** The login of PostgREST if it should be in the URL, and may become the roles of callers; otherwise null. */
export function otherLogin(survey: Survey, choice: Pick<Choice, "schemas" | "migrate">): string | null {
  const callers = rolesOfCallers(survey, choice);
  const { postgrestLogin: found } = survey;
  if (choice.migrate !== "off" || found === null || !needsLogin(survey, callers)) return null;
  return callers.every(({ name }) => found.memberOf.includes(name)) ? found.sql : null;
}

function loginFor(survey: Survey, choice: Choice): readonly string[] {
  const callers = rolesOfCallers(survey, choice);
  if (!needsLogin(survey, callers) || otherLogin(survey, choice) !== null) return [];
  return [
    `create role ${API_LOGIN} login noinherit password '…';`,
    `grant ${callers.map(({ sql }) => sql).join(", ")} to ${API_LOGIN};`,
  ];
}

/** An owner with createrole makes the roles of the service, all but the one that bypasses policies. */
function rightsFor({ login, roles, version }: Survey, { users, roles: callers }: Choice): readonly Preparation[] {
  if (login.isSuperuser) return [];
  const byName = new Map([...roles, ...login.serviceRoles].map((role) => [role.name, role]));
  const bypasses = login.serviceRoles.some(({ name, bypasses }) => name === "service_role" && bypasses);
  const made = byName.has("service_role") ? [] : ["service_role"];
  // Since PostgreSQL 16 the right to make roles is not one on all roles.
  const mayGrantAll = login.createsRoles && Number.parseInt(version, 10) < 16;
  const ofCallers = new Set([callers.anonymous, callers.signedIn]);
  const existing = [...login.serviceRoles, ...ofCallers].filter((role) => role !== null);
  const notGrantable = existing.filter(({ isGrantable }) => !mayGrantAll && !isGrantable).map(({ name }) => name);
  const granted = [...made, ...notGrantable].map((name) => roles.find((role) => role.name === name)?.sql ?? name);
  const statements = [
    ...made.map((role) => `create role ${role} bypassrls;`),
    ...(byName.has("service_role") && !bypasses ? ["alter role service_role bypassrls;"] : []),
    ...(granted.length > 0 ? [`grant ${granted.join(", ")} to ${login.sql} with admin option;`] : []),
    ...(users !== null && !users.table.isOwned
      ? [`grant references, select, insert, update, trigger on ${users.table.sql} to ${login.sql};`]
      : []),
  ];
  return [...roleMakerFor(login), ...statements.map((sql) => ({ sql, owner: null }))];
}

/** A start makes the roles of the service, and later renews the passwords of its logins. */
export const roleMakerFor = ({ isSuperuser, createsRoles, sql }: Login): readonly Preparation[] =>
  isSuperuser || createsRoles ? [] : [{ sql: `alter role ${sql} createrole;`, owner: null }];

/**
 * A copy of a database belongs to the login that has made it, and only its owner may create schemas, and objects in schema public. The modules
 * have schemas of their own; migrations write functions into the schemas of the tables.
 */
export function grantsFor(
  { login, database, databaseOwner, schemas, tables, installedId }: Survey,
  { migrate, users, schemas: served }: Pick<Choice, "migrate" | "users" | "schemas">,
): readonly Preparation[] {
  const isWritten = (name: string) =>
    users?.table.schema === name ||
    (served.includes(name) && (tables.length === 0 || tables.some((table) => table.isOwned && table.schema === name)));
  const closed = migrate === "on" ? schemas.filter(({ name, mayCreate }) => !mayCreate && isWritten(name)) : [];
  return [
    ...(login.createsSchemas || installedId !== null
      ? []
      : [{ sql: `grant create on database ${database} to ${login.sql};`, owner: databaseOwner }]),
    ...closed.map(({ sql, owner }) => ({ sql: `grant create on schema ${sql} to ${login.sql};`, owner })),
  ];
}

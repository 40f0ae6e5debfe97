import type { Choice } from "../existing/choice.ts";
import type { Survey, Table } from "../existing/survey.ts";
import { isServiceRole } from "../existing/survey-queries.ts";

/** A longer list is cut. */
const SHOWN = 6;

/** What a database has, in columns for people. */
export function describeSurvey(survey: Survey, { users, migrate }: Choice): string {
  const { version, database, login, tables, roles, extensions, foreignSchemas, installedId, otherTool } = survey;
  const own = tables.filter(({ isTable }) => isTable);
  const names = (chosen: readonly Table[]) => listed(chosen.map(({ sql }) => sql));
  const reachable = own.filter(({ grantees }) => grantees.length > 0);
  const lines: readonly (readonly [string, string])[] = [
    [
      "PostgreSQL",
      `${version}, database ${database}${survey.isReplica ? ", a replica: use the URL of the primary" : ""}`,
    ],
    ["login", [login.name, ...rightsOf(survey)].join(", ")],
    ["tables", countBySchema(own)],
    ["views", countBySchema(tables.filter(({ isTable }) => !isTable))],
    ["users", users === null ? "no table with an e-mail and one key was found" : aboutUsers(users)],
    [
      "roles",
      listed(
        roles
          .filter(({ name }) => migrate === "off" || !isServiceRole(name))
          .map(({ name, ...role }) => name + aboutRole(role)),
      ),
    ],
    ["without key", names(own.filter(({ key }) => key.length === 0))],
    ["without policies", withoutPolicies(reachable)],
    ["no access", names(tables.filter(({ grantees }) => grantees.length === 0))],
    ["extensions", listed(extensions.map(({ name, schema }) => `${name} in ${schema}`))],
    ["schema auth", aboutAuth(foreignSchemas, installedId)],
    ["migrations", otherTool === null ? "none of another tool" : `${otherTool}, of another tool`],
  ];
  return lines.map(([name, text]) => `${name.padEnd(17)} ${text}\n`).join("");
}

const listed = (names: readonly string[]): string =>
  names.length === 0
    ? "none"
    : names.slice(0, SHOWN).join(", ") + (names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "");

function rightsOf({ login }: Survey): readonly string[] {
  if (login.isSuperuser) return ["superuser"];
  return [
    login.createsRoles ? "may create roles" : "may not create roles",
    login.createsSchemas ? "may create schemas" : "may not create schemas",
  ];
}

function countBySchema(tables: readonly Table[]): string {
  const schemas = [...new Set(tables.map(({ schema }) => schema))];
  return listed(schemas.map((schema) => `${schema} (${tables.filter((table) => table.schema === schema).length})`));
}

const aboutUsers = ({ table, key, id, email, password }: NonNullable<Choice["users"]>): string =>
  [
    ...[table.sql, `${key} ${id}`, email],
    ...(password === null ? [] : [password.name]),
    ...(table.rows > 0 ? [`about ${Math.round(table.rows)} rows`] : []),
  ].join(", ");

function aboutRole({
  canLogin,
  bypassesPolicies,
}: Pick<Survey["roles"][number], "canLogin" | "bypassesPolicies">): string {
  const notes = [...(canLogin ? ["login"] : []), ...(bypassesPolicies ? ["bypasses policies"] : [])];
  return notes.length > 0 ? ` (${notes.join(", ")})` : "";
}

function withoutPolicies(tables: readonly Table[]): string {
  const open = tables.filter(({ hasRowSecurity }) => !hasRowSecurity).map(({ sql }) => sql);
  return open.length === 0 ? "none" : `${listed(open)}: each role with a grant reads all rows`;
}

function aboutAuth(foreign: readonly string[], installed: string | null): string {
  if (installed !== null) return `of the service; ids of users are ${installed}`;
  return foreign.length === 0 ? "none" : `${foreign.join(", ")}: of something else`;
}

const MIGRATE = {
  on: "a start installs the modules of the service in schemas of their own, and runs db/migrations",
  modules: "a start installs the modules of the service in schemas of their own",
  off: "the service creates nothing, and serves the database as it is",
};

/** The chosen settings, and why. */
export function describeChoice({ migrate, reason, modules, userId, schemas, roles }: Choice, survey: Survey): string {
  const lines = [
    `MIGRATE=${migrate}: ${MIGRATE[migrate]}${reason === null ? "" : `, because ${reason}`}`,
    ...(migrate !== "off" && survey.foreignSchemas.length > 0
      ? [`MODULES=${modules.join()}: without those that need ${survey.foreignSchemas.join(", ")}, of something else`]
      : []),
    `DB_SCHEMAS=${schemas.join(",")}: what the API serves`,
    ...(migrate === "off"
      ? [`DB_ANON_ROLE=${roles.anonymous?.name ?? "none"}: the role of callers without a token`]
      : [
          `AUTH_USER_ID=${userId}: the type of the ids of users, which stays`,
          `authenticated: signed-in users ${roles.signedIn ? `have the rights of ${roles.signedIn.name}` : "have no rights yet"}`,
          `anon: callers without a token ${roles.anonymous ? `have the rights of ${roles.anonymous.name}` : "have no rights yet"}`,
          "SIGNUP=off: only administrators, the service key and npx content-service user add users; open lets everyone sign up",
        ]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

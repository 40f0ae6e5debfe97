import type { ClientBase } from "pg";
import type { Config } from "../../config/config.ts";
import { loginName } from "../cluster/provision.ts";
import type { AdviceOptions } from "./advisor.ts";

/** `error`: rows leak or requests fail. `warning`: something is missing or slow. `note`: an improvement is possible. */
export type Level = (typeof LEVELS)[number];
export const LEVELS = ["error", "warning", "note"] as const;

/** A problem in a database, and its fix. */
export type Finding = {
  /** The name of the rule: `table-without-row-security` */
  readonly rule: string;
  readonly level: Level;
  /** The object as it is written in `comment on`: `policy "authors write" on public.posts` */
  readonly object: string;
  readonly reason: string;
  /** The SQL that fixes it, with … for each part that the DBA must fill in. Null if there is none. */
  readonly fix: string | null;
};

/** A finding, and the comment of its object, in which the tag `@accept` may accept the finding. */
export type Commented = Finding & { readonly comment: string | null };

/** The rule of the finding for a GraphQL schema that cannot be built. */
export const GRAPHQL_SCHEMA = "graphql-schema";

/** The most severe first. */
export const sorted = (findings: readonly Finding[]): readonly Finding[] =>
  findings.toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));

/** `{ errors: 1, warnings: 0, notes: 2 }` */
export function countsOf(findings: readonly Finding[]): Readonly<Record<`${Level}s`, number>> {
  const count = (level: Level) => findings.filter((each) => each.level === level).length;
  return { errors: count("error"), warnings: count("warning"), notes: count("note") };
}

/** `error table-without-row-security: table public.rates: it has no row-level security: anon may use all rows` */
export const lineOf = ({ level, rule, object, reason }: Finding): string => `${level} ${rule}: ${object}: ${reason}`;

/** A sentence with the fix: `table public.rates: it has no row-level security …; to fix it: alter table …` */
export const sentenceOf = ({ object, reason, fix }: Finding): string =>
  `${object}: ${reason}${fix === null ? "" : `; to fix it: ${fix}`}`;

/** The roles of callers in a database that the service migrates, without the role of anonymous callers. */
export const CALLER_ROLES = ["authenticated", "admin", "users_editor"];

type Settings = Pick<Config, "isManaged" | "hasFeed" | "dbAnonRole" | "changesPublication">;
type Setup = Pick<AdviceOptions, "logins" | "roles" | "publication" | "mayLackPublication">;

/** The roles of callers, together with these logins, which take them on. Without the module feed, a DBA manages the publication. */
export const setupWith = (
  logins: readonly string[],
  { isManaged, hasFeed, dbAnonRole, changesPublication }: Settings,
): Setup => ({
  logins,
  roles: [dbAnonRole, ...(isManaged ? CALLER_ROLES : [])],
  publication: hasFeed ? null : changesPublication,
  mayLackPublication: isManaged,
});

/** The same for a command that is connected as the owner. With MIGRATE=off, its own login is that of callers. */
export async function setupOf(client: ClientBase, config: Settings): Promise<Setup> {
  const { rows } = await client.query<{ database: string; login: string }>(
    "select current_database() as database, current_user as login",
  );
  const { database, login } = rows[0]!;
  const logins = config.isManaged ? [loginName(database, "data"), loginName(database, "admin")] : [login];
  return setupWith(logins, config);
}

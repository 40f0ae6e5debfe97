import type { ClientBase } from "pg";
import { COMMAND } from "../../config/command.ts";
import type { Config } from "../../config/config.ts";
import type { AdviceOptions } from "../../parts/advisor/advisor.ts";
import { loginName } from "../cluster/provision.ts";

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

/** Fewer findings of a rule with the same reason are written one by one. */
const MIN_GROUP = 4;
const NAMED = 3;

/** Findings for people: those of a rule with the same reason are one, `375 objects: table public.a, …`, with the SQL of all. */
export function grouped(findings: readonly Finding[]): readonly (Finding & { readonly count: number })[] {
  const groups = Map.groupBy(findings, ({ level, rule, reason }) => `${level} ${rule} ${reason}`);
  return [...groups.values()].flatMap((same) => {
    if (same.length < MIN_GROUP) return same.map((finding) => ({ ...finding, count: 1 }));
    const named = same.slice(0, NAMED).map(({ object }) => object);
    const object = `${same.length} objects: ${named.join(", ")} and ${same.length - NAMED} more`;
    const fixes = same.flatMap(({ fix }) => (fix === null ? [] : [fix]));
    return [{ ...same[0]!, object, fix: fixes.length === 0 ? null : fixes.join("\n"), count: same.length }];
  });
}

/** One sentence for each of these, for a report that has the SQL only of single findings. */
export const inBrief = (findings: readonly Finding[]): readonly { readonly level: Level; readonly text: string }[] =>
  grouped(findings).map(({ count, ...one }) => ({
    level: one.level,
    text: count === 1 ? sentenceOf(one) : `${one.object}: ${one.reason}; ${COMMAND} advise has the SQL`,
  }));

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

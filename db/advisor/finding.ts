import type { ClientBase } from "pg";
import type { Config } from "../../config/config.ts";
import { loginName } from "../cluster/provision.ts";
import type { AdviceOptions } from "./advisor.ts";

/** `error`: rows leak or requests fail. `warning`: something is missing or slow. `note`: it could be better. */
export type Level = (typeof LEVELS)[number];
export const LEVELS = ["error", "warning", "note"] as const;

/** What is wrong in a database. */
export type Finding = {
  /** The name of the rule: `table-without-row-security` */
  readonly rule: string;
  readonly level: Level;
  /** The object as it is written in `comment on`: `policy "authors write" on public.articles` */
  readonly object: string;
  readonly reason: string;
  /** The SQL that fixes it; … stands for what the DBA decides. Null if there is none. */
  readonly fix: string | null;
};

/** A finding, and the comment of its object, which may accept it. */
export type Commented = Finding & { readonly comment: string | null };

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

/** The roles of callers in a database that the service migrates, beside the role of anonymous ones. */
export const CALLER_ROLES = ["authenticated", "admin", "users_editor"];

type Callers = Pick<AdviceOptions, "logins" | "roles">;

/** Who calls, for these logins. */
export const callersWith = (
  logins: readonly string[],
  { migrate, dbAnonRole }: Pick<Config, "migrate" | "dbAnonRole">,
): Callers => ({ logins, roles: [dbAnonRole, ...(migrate ? CALLER_ROLES : [])] });

/** Who calls, for a command that is connected as the owner. */
export async function callersOf(client: ClientBase, config: Pick<Config, "migrate" | "dbAnonRole">): Promise<Callers> {
  const { rows } = await client.query<{ database: string; login: string }>(
    "select current_database() as database, current_user as login",
  );
  const { database, login } = rows[0]!;
  const logins = config.migrate ? [loginName(database, "data"), loginName(database, "admin")] : [login];
  return callersWith(logins, config);
}

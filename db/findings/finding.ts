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
  /** The comment of the object, in which the tag `@accept` may accept the finding; absent where it is not known. */
  readonly comment?: string | null;
};

/** `accepted`: findings that a DBA has accepted, with the reason. */
export type Advice = {
  readonly findings: readonly Finding[];
  readonly accepted: readonly (Finding & { readonly because: string })[];
};

/** A literal of SQL, as Postgres quotes it, on one line: an indentation does not change the text. */
export const onOneLine = (literal: string): string =>
  literal.includes("\n") ? `e${literal.trim().replace(/^E/, "").replaceAll("\n", "\\n")}` : literal;

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

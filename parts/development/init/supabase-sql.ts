import { statementsOf } from "../../../db/sql-tokens.ts";

/** Something of a Supabase project that is not served, or differs: where it is, what it is, and what to use instead. */
export type Difference = {
  readonly file: string;
  readonly line: number;
  readonly what: string;
  readonly instead: string;
};

type Rule = {
  /** Matches the statement without its comments. */
  readonly pattern: RegExp;
  readonly instead: string;
  /** Whether the statement stays, because a server of your own may run it, or because it does no harm. */
  readonly stays?: boolean;
  readonly isExtension?: boolean;
};

/** `storage.objects`, `"storage"."objects"` or `schema storage`, and neither `my.storage` nor `https://storage.example`. */
const inSchema = (...names: readonly string[]): RegExp =>
  new RegExp(
    `(?<![\\w."'/])("?)(?:${names.join("|")})\\1\\s*\\.\\s*"?\\w|\\bschema\\s+(?:if\\s+not\\s+exists\\s+)?"?(?:${names.join("|")})"?(?!\\w)`,
    "i",
  );

const extension = (names: string): RegExp =>
  new RegExp(`\\bextension\\s+(?:if\\s+(?:not\\s+)?exists\\s+)?"?(?:${names})"?(?![\\w])`, "i");

/** Who owns what is in a dump of Supabase: here, the owner of the database does. */
const ADMINISTRATORS = '"?(?:postgres|supabase_\\w*admin)(?!\\w)"?';
const OWNER = new RegExp(`\\b(owner\\s+to)\\s+${ADMINISTRATORS}`, "gi");
const GRANTOR = new RegExp(`\\b(default\\s+privileges)\\s+for\\s+(?:role|user)\\s+${ADMINISTRATORS}`, "gi");

/** What statements of Supabase projects need that the service does not have. */
const RULES: readonly Rule[] = [
  {
    pattern: inSchema("storage"),
    instead: "a storage server beside the service, named in STORAGE_URL; the service has no files",
  },
  {
    pattern: inSchema("vault", "pgsodium"),
    instead: "environment variables, which tasks and routes read (environment in content-service.config.ts)",
  },
  {
    pattern: new RegExp(
      `${inSchema("net", "supabase_functions").source}|\\bhttp_(?:get|post|put|patch|delete|head)\\s*\\(`,
      "i",
    ),
    instead: "a task: tasks.run(…) in SQL, and fetch in tasks/ (docs/applications.md, Tasks)",
  },
  { pattern: inSchema("cron"), instead: "a task with cron (docs/applications.md, Tasks)" },
  { pattern: inSchema("graphql", "graphql_public"), instead: "/graphql, with names of its own (docs/graphql.md)" },
  {
    pattern: extension("pg_net|http|pg_cron|supabase_vault|pgsodium|pg_graphql|pgjwt|pg_tle|wrappers"),
    instead: "nothing, the service does not use this extension",
    isExtension: true,
  },
  {
    pattern: extension(
      "vector|postgis\\w*|pgroonga|rum|timescaledb|pg_jsonschema|hypopg|index_advisor|pgtap|pgmq|plv8|plpgsql_check|pgrouting|pg_hashids",
    ),
    instead: "a server that has the extension: DATABASE_URL, and TEST_POSTGRES for tests; the embedded one does not",
    stays: true,
    isExtension: true,
  },
  {
    pattern: new RegExp(
      `${inSchema("supabase_migrations").source}|(?<![\\w."'/])"?auth"?\\."?(?:refresh_tokens|audit_log_entries|flow_state|one_time_tokens|sso_\\w+|saml_\\w+)\\b`,
      "i",
    ),
    instead: "supabase.auth.admin",
  },
  {
    pattern: /\bauth"?\."?mfa_factors\b/i,
    instead: "auth.jwt() ->> 'aal' in policies: callers may not read this view, and functions of the owner may",
    stays: true,
  },
  {
    pattern: /\bauth"?\."?sessions\b/i,
    instead: "auth.jwt() ->> 'session_id' in policies: callers may not read this view, and functions of the owner may",
    stays: true,
  },
  {
    pattern: /\balter\s+(?:role|user)\s+"?authenticator\b/i,
    instead: "DB_SCHEMAS, DB_MAX_ROWS and other settings of content-service.config.ts",
  },
  {
    pattern: /\balter\s+database\s+"?postgres\b/i,
    instead: "alter database with the name of yours, or current_database()",
  },
  {
    pattern: /^\s*(?:begin|commit|end|start\s+transaction)(?:\s+(?:work|transaction))?\s*$/i,
    instead: "nothing, each migration is a transaction",
  },
  {
    pattern: /\bcopy\b[^;]*\bfrom\s+stdin\b/i,
    instead: 'psql "$(npx content-service url)" --file: only psql reads rows after copy',
    stays: true,
  },
];

/** A statement that others need: it stays, and fails at the start or when it is called. */
const STAYS = /^create\s+(?:or\s+replace\s+)?(?:function|procedure|(?:unlogged\s+)?table)\b/i;

/** A policy without which callers may do more, unless its table is not served either. */
const restricts = (code: string): boolean =>
  /^create\s+policy\b[^(]*\bas\s+restrictive\b/i.test(code) &&
  !/^[^(]*\bon\s+"?(?:storage|vault|cron|net)\b/i.test(code);

/** Comments become spaces, so that positions stay. Those in bodies of functions too. */
const withoutComments = (sql: string): string =>
  sql.replace(/--[^\n]*|\/\*.*?\*\//gs, (comment) => comment.replace(/[^\n]/g, " "));

/** A migration of Supabase in which statements that are not served are comments, and what these are. Lines keep their numbers. */
export function withoutUnserved(
  file: string,
  given: string,
): { readonly text: string; readonly differences: readonly Difference[] } {
  const sql = given
    .replace(/^\uFEFF/, "")
    .replaceAll("\r\n", "\n")
    .replace(OWNER, "$1 current_user")
    .replace(GRANTOR, "$1");
  const differences: Difference[] = [];
  let [text, end] = ["", 0];
  for (const { text: statement, at } of statementsOf(sql)) {
    const code = withoutComments(statement);
    const found = rulesFor(code).flatMap(({ pattern, ...rule }) => {
      const match = pattern.exec(code);
      return match === null ? [] : [{ ...rule, at: at + match.index }];
    });
    if (found.length === 0) continue;
    const stays = STAYS.test(code) || restricts(code) || found.every((rule) => rule.stays);
    for (const { at: place, instead } of found)
      differences.push({
        file,
        line: lineAt(sql, place),
        what: `${shortened(code)}${stays ? "" : " (a comment now)"}`,
        instead,
      });
    if (stays) continue;
    // The semicolon belongs to the comment, and what follows on its line does not.
    const semicolon = /^\s*;/.exec(sql.slice(at + statement.length))?.[0].length ?? 0;
    const next = at + statement.length + semicolon;
    const rest = /^[ \t]*(?!--)\S/.test(sql.slice(next)) ? "\n" : "";
    text += sql.slice(end, at) + sql.slice(at, next).replace(/^/gm, "-- ") + rest;
    end = next;
  }
  return { text: text + sql.slice(end), differences };
}

/** An extension is created in a schema that another rule may name. */
const rulesFor = (code: string): readonly Rule[] =>
  /^(?:create|drop)\s+extension\b/i.test(code) ? RULES.filter(({ isExtension }) => isExtension) : RULES;

const lineAt = (text: string, at: number): number => text.slice(0, at).split("\n").length;

const MAX_WHAT = 70;

/** The beginning of a statement on one line. */
function shortened(statement: string): string {
  const line = statement.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > MAX_WHAT ? `${line.slice(0, MAX_WHAT)}…` : line;
}

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ClientBase } from "pg";
import type { DatabaseError } from "pg-protocol";
import { ConfigError } from "../../config/config-error.ts";
import { type Advice, type Finding, type Level, onOneLine, sorted } from "../../db/findings/finding.ts";
import { SHORT_LOCK_TIMEOUT } from "../../db/follow/lock-retries.ts";
import type { Part } from "../../service/part.ts";
import { findLostChanges } from "./changes.ts";
import { type Candidate, openWithoutUser } from "./without-user.ts";

export type AdviceOptions = {
  /** The served schemas. */
  readonly schemas: readonly string[];
  /** The logins that take on the roles of callers. */
  readonly logins: readonly string[];
  /** Roles of callers, even if no login may become them. */
  readonly roles: readonly string[];
  /** The folders of more rules. */
  readonly rules?: readonly URL[];
  /** Findings that a file accepts. */
  readonly acceptances?: Acceptances;
  /** The publication of the tables whose changes subscribers receive, if a DBA manages it; absent or null if it is not checked. */
  readonly publication?: string | null;
  /** Whether it is no fault that there is no publication: MODULES leaves out the feed. */
  readonly mayLackPublication?: boolean;
};

/** A rule is a query that selects object, comment, reason and fix, and the level if it depends on the object. */
type Rule = { readonly name: string; readonly level: Level; readonly about: string; readonly sql: string };

const FOLDER = new URL("rules", import.meta.url);
/** The line before the query of a rule: `-- warning policy-per-row: why` */
const HEADER = /^-- (error|warning|note) ([a-z-]+): (.+)\n/m;

/** The folders of rules of these parts. */
export const rulesOf = (parts: readonly Pick<Part, "rules">[]): readonly URL[] =>
  parts.flatMap(({ rules }) => rules ?? []);

/** The rules of all files in `rules/`, and of more folders, sorted by name. */
export async function readRules(more: readonly URL[] = []): Promise<readonly Rule[]> {
  const rules = await Promise.all([FOLDER, ...more].map(readFolder));
  return rules.flat().sort((a, b) => (a.name < b.name ? -1 : 1));
}

async function readFolder(url: URL): Promise<readonly Rule[]> {
  const folder = fileURLToPath(url);
  const files = (await readdir(folder)).filter((file) => file.endsWith(".sql"));
  const texts = files.map(async (file) => parseRules(await readFile(join(folder, file), "utf8"), join(folder, file)));
  return (await Promise.all(texts)).flat();
}

function parseRules(text: string, file: string): readonly Rule[] {
  const [, ...parts] = text.split(HEADER);
  if (parts.length === 0)
    throw new ConfigError(`${file} must begin with a line such as -- warning name-of-the-rule: why`);
  return Array.from({ length: parts.length / 4 }, (_, i) => {
    const [level, name, about, sql] = parts.slice(4 * i, 4 * i + 4) as [Level, string, string, string];
    return { name, level, about, sql };
  });
}

/** Roles of callers: those that may be reached from the logins, without those that no policy restricts. */
const CALLERS = `
  with recursive reached as (
    select oid from pg_roles where rolname = any ($1) or rolname = any ($2)
    union
    select m.roleid from pg_auth_members as m join reached as r on r.oid = m.member
    where coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
  )
  select coalesce(array_agg(r.rolname::text order by r.rolname), '{}') as names
  from pg_roles as r
  join reached using (oid)
  where not r.rolsuper and not r.rolbypassrls and r.rolname <> all ($1) and r.rolname !~ '^pg_'
    and r.rolname not in ('tasks_owner', 'changes_owner', 'auth_owner')`;

/**
 * Runs all rules on a database, in one read-only transaction, and sorts what they find by level and object. Any login can
 * run them: they read only the catalog. Rejects with 55P03 if another transaction locks a table that they need.
 */
export async function advise(client: ClientBase, options: AdviceOptions): Promise<Advice> {
  const {
    schemas,
    logins,
    roles,
    acceptances = [],
    rules: more = [],
    publication = null,
    mayLackPublication = false,
  } = options;
  const [rules, common] = await Promise.all([
    readRules(more),
    readFile(new URL("served.sql", import.meta.url), "utf8"),
  ]);
  const found: Finding[] = [];
  // With an empty search path Postgres writes every name with its schema.
  await client.query("begin transaction isolation level repeatable read read only");
  try {
    await client.query(`set local search_path = ''; set local jit = off; ${SHORT_LOCK_TIMEOUT}`);
    const callers = (await client.query(CALLERS, [logins, roles])).rows[0].names;
    for (const { name: rule, level, sql } of rules) {
      const text = `with ${common} select * from (${sql}) as finding order by object`.replaceAll("…", BLANK);
      const { rows } = await client.query<Row>(text, [schemas, callers, logins]).catch((error: DatabaseError) => {
        throw /^(22|42)/.test(error.code ?? "") ? new ConfigError(`the rule ${rule}: ${error.message}`) : error;
      });
      const kept =
        rule === WITHOUT_SIGN_IN
          ? await openWithoutUser(client, rows as unknown as readonly (Row & Candidate)[])
          : rows;
      const pick = ({ level: own = level, object, comment, reason, fix }: Row): Finding => ({
        ...{ rule, level: own, object, comment, reason },
        fix: fix?.replaceAll(BLANK, "…").replace(COMMENT, onOneLine) ?? null,
      });
      found.push(...kept.map(pick));
    }
    const isFound = ({ object }: Finding) => found.some((row) => row.rule === MISSING_COLUMN && row.object === object);
    found.push(...(await brokenSqlFunctions(client, schemas)).filter((row) => !isFound(row)));
    if (publication !== null)
      found.push(...(await findLostChanges(client, { schemas, logins, publication, mayLackPublication })));
  } finally {
    await client.query("rollback");
  }
  return separate(found, acceptances);
}

/** What a rule selects. */
type Row = Omit<Finding, "rule" | "level"> & { readonly level?: Level };

/** Stands for … in SQL: not every encoding of a database has that character. */
const BLANK = "\u0001";

/** The text of `comment on … is '…'`. */
const COMMENT = /(?<= is +)E?'(?:[^']|'')*'/g;

/** The rule selects candidates. */
const WITHOUT_SIGN_IN = "policy-without-sign-in";

/** The rule reads the text of functions; for those in SQL, Postgres knows more. */
const MISSING_COLUMN = "function-uses-missing-column";

/** Separates what has been accepted. */
function separate(found: readonly Finding[], acceptances: Acceptances): Advice {
  const findings: Finding[] = [];
  const accepted: (Finding & { because: string })[] = [];
  for (const finding of found) {
    const because = acceptedByTag(finding.comment, finding.rule) ?? acceptedByFile(acceptances, finding);
    if (because === null) findings.push(finding);
    else accepted.push({ ...finding, because });
  }
  return { findings: sorted(findings), accepted };
}

/** `@accept table-without-row-security rates are public`: a smart tag in the comment of the object. */
function acceptedByTag(comment: string | null | undefined, rule: string): string | null {
  const tags = comment?.matchAll(/^@accept +([\w-]+) *(.*)$/gm) ?? [];
  for (const [, name, reason] of tags) if (name === rule) return reason!.trim();
  return null;
}

/** Accepted findings: rule, object and reason. */
export type Acceptances = readonly { readonly rule: string; readonly object: string; readonly because: string }[];

/**
 * Parses a file of accepted findings, one per line; empty lines and lines that begin with # are skipped.
 *
 *   parseAcceptances("table-without-row-security  table public.rates  # rates are public")
 *   // [{ rule: "table-without-row-security", object: "table public.rates", because: "rates are public" }]
 * Throws an error that names the first malformed line.
 */
export function parseAcceptances(text: string): Acceptances {
  return text.split("\n").flatMap((line, i) => {
    if (/^\s*(#|$)/.test(line)) return [];
    const [, rule, object, because = ""] = /^\s*([a-z-]+)\s+([^#]+?)\s*(?:#\s*(.*?)\s*)?$/.exec(line) ?? [];
    if (rule === undefined) throw new Error(`line ${i + 1} must be: rule object # reason`);
    return [{ rule, object: object!, because }];
  });
}

const acceptedByFile = (acceptances: Acceptances, { rule, object }: Finding): string | null =>
  acceptances.find((each) => each.rule === rule && each.object === object)?.because ?? null;

/** Functions in SQL that this login may execute, with the search path of their calls. $1: the served schemas. */
const FUNCTIONS = `
  select p.oid::int8, 'function ' || p.oid::regprocedure as object, obj_description(p.oid, 'pg_proc') as comment,
    coalesce(
      (select substr(setting, length('search_path=') + 1) from unnest(p.proconfig) as setting where setting like 'search_path=%'),
      format('%I, public', n.nspname)
    ) as path
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where l.lanname = 'sql' and p.prosqlbody is null and n.nspname = any ($1) and has_function_privilege(p.oid, 'execute')
  order by object`;

const UNDEFINED_COLUMN = "42703";

/**
 * Functions in SQL whose text names a column that does not exist, as Postgres itself finds it: with the check that it makes when
 * such a function is created. Runs in the open transaction and leaves it as it was.
 */
async function brokenSqlFunctions(client: ClientBase, schemas: readonly string[]): Promise<readonly Finding[]> {
  const { rows } = await client.query(FUNCTIONS, [schemas]);
  const broken: Finding[] = [];
  for (const { oid, object, comment, path } of rows) {
    await client.query("savepoint checked");
    try {
      await client.query("select set_config('search_path', $1, true)", [path]);
      await client.query("select pg_catalog.fmgr_sql_validator($1::int8::oid)", [oid]);
    } catch (error) {
      const { code, message } = error as DatabaseError;
      if (code === UNDEFINED_COLUMN)
        broken.push({ ...FINDING, object, comment, reason: `${message}: calls fail`, fix: fixFor(object) });
    }
    await client.query("rollback to savepoint checked");
  }
  return broken;
}

const FINDING = { rule: "function-uses-missing-column", level: "error" } as const;

const fixFor = (object: string): string =>
  `-- Write the function again without the column; to see it: \\sf ${object.replace(/^function |\(.*/gs, "")}`;

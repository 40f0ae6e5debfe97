import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Logger } from "pino";
import { type Catalog, quoteIfNeeded, type Table, type TablePrivilege } from "../../db/catalog/catalog.ts";
import { mayUseColumn, mayUseTable } from "../../db/catalog/grants.ts";
import { sentenceOf } from "../../db/findings/finding.ts";
import { retryLocked } from "../../db/follow/lock-retries.ts";
import type { Failure } from "../../db/transaction/transaction-plan.ts";
import { advise } from "./advisor.ts";

/** Milliseconds for which the same line is not logged again. */
const PAUSE = 600_000;
const MAX_LINES = 1000;

/**
 * Logs what a DBA should know about errors that clients receive: the grant that is missing, the function that uses a missing
 * column, the policy that recurses. The same line is logged once in ten minutes.
 */
export class Diagnosis {
  readonly #pool: Pick<Pool, "connect" | "query">;
  readonly #log: Logger;
  readonly #logged = new LRUCache<string, true>({ max: MAX_LINES, ttl: PAUSE });
  readonly #catalog: () => Catalog;

  constructor(pool: Pick<Pool, "connect" | "query">, catalog: () => Catalog, log: Logger) {
    this.#pool = pool;
    this.#catalog = catalog;
    this.#log = log;
  }

  /** Never throws: the request has failed already, with its own error. */
  examine(failure: Failure): void {
    const { code } = failure.error;
    if (code === "42501") void this.#findGrant(failure, this.#catalog());
    if (MISSING.has(code!)) this.#report(brokenFunction(failure.error), "error");
    if (code === "42P17" || code === "54001") void this.#findRecursion(failure);
  }

  #report(line: string | null, level: "info" | "error"): void {
    if (line === null || this.#logged.has(line)) return;
    this.#logged.set(line, true);
    this.#log[level](line);
  }

  async #findGrant(failure: Failure, catalog: Catalog): Promise<void> {
    const [, name] = /^permission denied for function (.+)$/.exec(failure.error.message) ?? [];
    if (name === undefined)
      return this.#report(
        refusedRow(failure) ?? (await this.#missingRole(failure)) ?? missingGrant(failure, catalog),
        "info",
      );
    const denied = await this.#pool.query<{ signatures: string }>(DENIED_FUNCTIONS, [name, failure.role]).then(
      ({ rows }) => rows[0]?.signatures,
      () => undefined,
    );
    this.#report(grantSentence(failure.role, `execute ${denied ?? name}`), "info");
  }

  /** The grant for a token whose role the login of the service may not become. */
  async #missingRole({ error: { message } }: Failure): Promise<string | null> {
    const [, role] = /^permission denied to set role "(.+)"$/.exec(message) ?? [];
    if (role === undefined) return null;
    const login = await this.#pool.query<{ login: string }>("select session_user as login").then(
      ({ rows }) => rows[0]!.login,
      () => null,
    );
    if (login === null) return null;
    return `the login ${login} may not become ${role}, which a token names: it is not a member of it; ${SEE}`;
  }

  /** Postgres names the table whose policies recurse, and not the policy. */
  async #findRecursion({ error, role }: Failure): Promise<void> {
    const key = `recursion ${error.message}`;
    if (this.#logged.has(key)) return;
    this.#logged.set(key, true);
    const client = await this.#pool.connect().catch(() => null);
    if (client === null) return;
    try {
      const schemas = [...this.#catalog().schemas.keys()];
      const rules = ["policy-recursion"];
      const { findings, accepted } = await retryLocked(() =>
        advise(client, { schemas, logins: [], roles: [role], rules }),
      );
      for (const finding of [...findings, ...accepted]) this.#report(sentenceOf(finding), "error");
    } catch (err) {
      this.#log.warn({ err }, "the policy that recurses cannot be found");
    } finally {
      client.release();
    }
  }
}

/** SQLSTATEs of a column, table, function or type that does not exist. */
const MISSING = new Set(["42703", "42P01", "42883", "42704"]);

/** `PL/pgSQL function note_of(integer) line 3 at RETURN`, `SQL function "f" statement 1` */
const IN_FUNCTION = /^(?:PL\/pgSQL|SQL) function "?(.+?)"?(?: (?:line|statement) (\d+).*| during .*)?$/m;

/** Null for an error in a statement of the service itself: its catalog is briefly out of date. */
function brokenFunction({ message, where }: DatabaseError): string | null {
  const [, name, line] = IN_FUNCTION.exec(where ?? "") ?? [];
  if (name === undefined) return null;
  return `the function ${name} is broken${line === undefined ? "" : ` at line ${line}`}: ${message}`;
}

/** Postgres writes the name of a function without schema and arguments. `internal.my_region()` */
const DENIED_FUNCTIONS = `
  select string_agg(format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), ', ' order by n.nspname, p.oid) as signatures
  from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
  where p.proname = $1 and p.prokind in ('f', 'a', 'w') and not has_function_privilege($2, p.oid, 'execute')`;

/** Not the statement of the grant: most refusals are right, and a log is no place from which to open a table. */
const SEE = 'docs/dba-guide.md, "What the log says about your SQL"';

/** `anon may not execute public.f(): no grant allows it; docs/dba-guide.md, …` */
const grantSentence = (role: string, what: string) => `${role} may not ${what}: no grant allows it; ${SEE}`;

const REFUSED_ROW =
  /^new row violates row-level security policy (?:"(.+)" )?(?:\(USING expression\) )?for table "(.+)"$/;

/** Postgres names a policy only if it is restrictive. Null if the error has another cause. */
function refusedRow({ error, role }: Failure): string | null {
  const [, policy, table] = REFUSED_ROW.exec(error.message) ?? [];
  if (table === undefined) return null;
  const reason =
    policy === undefined
      ? `no policy of ${table} for ${role} allows the new row`
      : `the policy ${quoteIfNeeded(policy)} of ${table} refuses the new row`;
  return `${role} may not write a row of ${table}: ${reason}; its with check, or its using, must hold for the row`;
}

const DENIED = /^permission denied for (table|view|materialized view|foreign table|schema|sequence) (.+)$/;

/**
 * The right on a table, schema or sequence that a statement would need, such as `anon may not select (email) on public.users`. Null if the error has
 * another cause, such as a policy.
 */
function missingGrant({ error, role, texts }: Failure, catalog: Catalog): string | null {
  const [, kind, name] = DENIED.exec(error.message) ?? [];
  if (kind === undefined || name === undefined) return null;
  const say = (what: string) => grantSentence(role, what);
  if (kind === "schema" || kind === "sequence") return say(`use the ${kind} ${name}`);
  const table = tableNamed(name, texts, catalog);
  const [, inFunction] = IN_FUNCTION.exec(error.where ?? "") ?? [];
  const as = inFunction === undefined ? "" : `, as the function ${inFunction} does`;
  if (!table) return say(`use ${name}${as}`);
  const path = `${quoteIfNeeded(table.schema)}.${quoteIfNeeded(table.name)}`;
  // The first statement of several may be allowed, such as the count of the rows to delete.
  for (const text of statementsOn(table, error, texts)) {
    const found = neededOn(table, text).flatMap(
      ([privilege, columns]) => missingOf(privilege, columns, { table, role, catalog }) ?? [],
    );
    if (found.length > 0) return say(`${found.join(", ")} on ${path}${as}`);
  }
  return closedColumns({ table, role, catalog }, path, as) ?? say(`use ${path}${as}`);
}

/**
 * For a statement that is not known, such as one of a SQL function: the columns that the role may not read. A grant on the table would open
 * them all. Null unless the role may read others.
 */
function closedColumns({ table, role, catalog }: TableOfRole, path: string, as: string): string | null {
  const closed = [...table.columns.values()].filter((column) => !mayUseColumn(catalog, role, table, column, "select"));
  if (closed.length === 0 || closed.length === table.columns.size) return null;
  const names = closed.map(({ name }) => quoteIfNeeded(name)).join(", ");
  return (
    `${role} may not select the columns (${names}) of ${path}${as}: write the other columns in place of *, or grant select on those that ` +
    `${role} needs`
  );
}

type Needed = readonly (readonly [privilege: TablePrivilege, columns: readonly string[]])[];

/** What the statement needs on the table: `[["update", ["title"]], ["select", ["id", "title"]]]` */
function neededOn(table: Table, text: string): Needed {
  const name = `(?:"?${escaped(table.schema)}"?\\.)?"?${escaped(table.name)}"?`;
  const [, inserted] = new RegExp(`insert\\s+into\\s+${name}[^()]*\\(([^()]*)\\)`, "i").exec(text) ?? [];
  const [, set, rest] =
    new RegExp(`update\\s+(?:only\\s+)?${name}.*?\\sset\\s(.*?)(\\s(?:from|where|returning)\\s.*|$)`, "is").exec(
      text,
    ) ?? [];
  const isDelete = new RegExp(`delete\\s+from\\s+(?:only\\s+)?${name}`, "i").test(text);
  const columnsIn = (part: string) => {
    const words = new Set(part.match(/[\p{L}_][\p{L}\p{N}_$]*/gu));
    return [...table.columns.keys()].filter((column) => words.has(column));
  };
  const assignedIn = (part: string) => columnsIn(part.replace(/=[^,]*/g, " "));
  const [, returned = ""] = /\sreturning\s(.*?)(?:\n\)|$)/is.exec(text) ?? [];
  const hasAll = (part: string) => /\bt\.\*/.test(part);
  const selecting = (part: string): Needed => {
    const columns = hasAll(returned) ? [...table.columns.keys()] : columnsIn(part);
    return columns.length === 0 ? [] : [["select", columns]];
  };
  if (inserted !== undefined) {
    const [, conflict = "", merged] =
      /\son\s+conflict\s(.*?do\s+update\s+set\s(.*?))(?:\swhere\s|\sreturning\s|$)/is.exec(text) ?? [];
    const updating: Needed = merged === undefined ? [] : [["update", assignedIn(merged)]];
    return [["insert", columnsIn(inserted)], ...updating, ...selecting(`${conflict} ${returned}`)];
  }
  // New values come from a subquery before the where.
  if (set !== undefined)
    return [["update", assignedIn(set)], ...selecting(rest!.replace(/^\sfrom\s.*?(?=\swhere\s|$)/is, ""))];
  if (isDelete) return [["delete", []], ...selecting(text)];
  return [["select", hasAll(text) ? [...table.columns.keys()] : columnsIn(text)]];
}

type TableOfRole = { readonly table: Table; readonly role: string; readonly catalog: Catalog };

/** `update (title)`; without columns for the whole table. Null if the role has the privilege. */
function missingOf(
  privilege: TablePrivilege,
  columns: readonly string[],
  { table, role, catalog }: TableOfRole,
): string | null {
  if (privilege === "delete" || columns.length === 0)
    return mayUseTable(catalog, role, table, privilege) ? null : privilege;
  const missing = columns.filter((name) => !mayUseColumn(catalog, role, table, table.columns.get(name)!, privilege));
  if (missing.length === 0) return null;
  if (missing.length === table.columns.size) return privilege;
  return `${privilege} (${missing.map(quoteIfNeeded).join(", ")})`;
}

/** The statement of a function that has failed, or the statements of the request that name the table. */
function statementsOn(table: Table, { where }: DatabaseError, texts: readonly string[]): readonly string[] {
  const [, inFunction] = /SQL (?:statement|expression) "([\s\S]*?)"\n/.exec(`${where ?? ""}\n`) ?? [];
  return inFunction === undefined ? texts.filter((text) => text.includes(table.name)) : [inFunction];
}

/** Postgres writes the name without its schema. */
function tableNamed(name: string, texts: readonly string[], { schemas }: Catalog): Table | undefined {
  const tables = [...schemas.values()].flatMap(({ tables }) => tables.get(name) ?? []);
  return tables.find(({ schema }) => texts.some((text) => text.includes(`"${schema}"."${name}"`))) ?? tables[0];
}

const escaped = (name: string) => name.replace(/[^\w]/g, "\\$&");

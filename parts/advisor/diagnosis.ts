import { LRUCache } from "lru-cache";
import type { Pool } from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Logger } from "pino";
import { type Catalog, quoteIfNeeded, type Table } from "../../db/catalog/catalog.ts";
import { tableExposure } from "../../db/catalog/exposure.ts";
import { isRaised } from "../../db/errors.ts";
import { MISSING } from "../../db/sqlstates.ts";
import { type Failure, PRE_REQUEST } from "../../db/transaction/transaction-plan.ts";

/** Milliseconds for which the same line is not logged again. */
const PAUSE = 600_000;
const MAX_LINES = 1000;

/**
 * Logs what a DBA should know about errors that clients receive: who may not use what, and the function that uses a missing column. The same
 * line is logged once in ten minutes.
 */
export class Diagnosis {
  readonly #pool: Pick<Pool, "query">;
  readonly #log: Logger;
  readonly #logged = new LRUCache<string, true>({ max: MAX_LINES, ttl: PAUSE });
  readonly #catalog: () => Catalog;

  constructor(pool: Pick<Pool, "query">, catalog: () => Catalog, log: Logger) {
    this.#pool = pool;
    this.#catalog = catalog;
    this.#log = log;
  }

  /** Never throws: the request has failed already, with its own error. */
  examine(failure: Failure): void {
    const { code } = failure.error;
    if (code === "42501") void this.#refusalOf(failure).then((line) => this.#report(line, "info"));
    if (MISSING.has(code) && !isRaised(failure.error)) this.#report(brokenFunction(failure.error), "error");
  }

  #report(line: string | null, level: "info" | "error"): void {
    if (line === null || this.#logged.has(line)) return;
    this.#logged.set(line, true);
    this.#log[level](line);
  }

  async #refusalOf(failure: Failure): Promise<string> {
    const { error, role } = failure;
    const [, name] = /^permission denied for function (.+)$/.exec(error.message) ?? [];
    if (name !== undefined) {
      const signatures = await this.#ask(DENIED_FUNCTIONS, [name, role]);
      return `${role} may not execute ${signatures ?? name}: no grant allows it; ${SEE}`;
    }
    const [, denied] = /^permission denied to set role "(.+)"$/.exec(error.message) ?? [];
    const login = denied === undefined ? null : await this.#ask("select session_user as text", []);
    if (login !== null)
      return `the login ${login} may not become ${denied}, which a token names: it is not a member of it; ${SEE}`;
    const [, inFunction] = IN_FUNCTION.exec(error.where ?? "") ?? [];
    const where = inFunction === undefined ? "" : `, in the function ${inFunction}`;
    return `${role} was refused: ${error.message}${where}${grantsOf(failure, this.#catalog())}; ${SEE}`;
  }

  /** Null if the database does not answer. */
  #ask(text: string, values: readonly string[]): Promise<string | null> {
    return this.#pool.query<{ text: string | null }>(text, [...values]).then(
      ({ rows }) => rows[0]?.text ?? null,
      () => null,
    );
  }
}

/** `PL/pgSQL function note_of(integer) line 3 at RETURN`, `SQL function "f" statement 1` */
const IN_FUNCTION = /^(?:PL\/pgSQL|SQL) function "?(.+?)"?(?: (?:line|statement) (\d+).*| during .*)?$/m;

/** Null for an error in a statement of the service itself: its catalog is briefly out of date. */
function brokenFunction({ message, where }: DatabaseError): string | null {
  if (where === PRE_REQUEST) return `${where} fails for each request: ${message}`;
  const [, name, line] = IN_FUNCTION.exec(where ?? "") ?? [];
  if (name === undefined) return null;
  return `the function ${name} is broken${line === undefined ? "" : ` at line ${line}`}: ${message}`;
}

/** Postgres writes the name of a function without schema and arguments. `internal.my_region()` */
const DENIED_FUNCTIONS = `
  select string_agg(format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), ', ' order by n.nspname, p.oid) as text
  from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
  where p.proname = $1 and p.prokind in ('f', 'a', 'w') and not has_function_privilege($2, p.oid, 'execute')`;

/** Not the statement of the grant: most refusals are right, and a log is no place from which to open a table. */
const SEE = 'docs/dba-guide.md, "What the log says about your SQL"';

const DENIED = /^permission denied for (?:table|view|materialized view|foreign table) (.+)$/;

/** What the role may do with the table that Postgres names: the statement needed something else. `. It may select (id) on public.orders` */
function grantsOf({ error, role, texts }: Failure, catalog: Catalog): string {
  const [, name = ""] = DENIED.exec(error.message) ?? [];
  const table = tableNamed(name, texts, catalog);
  if (table === undefined) return "";
  const { columns, isDeletable } = tableExposure(catalog, role, table);
  const granted = Object.entries(columns).flatMap(([privilege, allowed]) => {
    if (allowed === "all") return [privilege];
    return allowed.length === 0 ? [] : [`${privilege} (${allowed.map(quoteIfNeeded).join(", ")})`];
  });
  const rights = [...granted, ...(isDeletable ? ["delete"] : [])].join(", ");
  const path = `${quoteIfNeeded(table.schema)}.${quoteIfNeeded(table.name)}`;
  return rights === "" ? `. It has no grant on ${path}` : `. It may ${rights} on ${path}`;
}

/** Postgres writes the name without its schema. */
function tableNamed(name: string, texts: readonly string[], { schemas }: Catalog): Table | undefined {
  const tables = [...schemas.values()].flatMap((schema) => schema.tables.get(name) ?? []);
  return tables.find(({ schema }) => texts.some((text) => text.includes(`"${schema}"."${name}"`))) ?? tables[0];
}

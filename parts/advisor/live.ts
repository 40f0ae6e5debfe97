import type { Pool } from "pg";
import pg from "pg";
import type { Logger } from "pino";
import { acceptanceFile } from "../../config/advisor.ts";
import { COMMAND } from "../../config/command.ts";
import type { Config } from "../../config/config.ts";
import { readText } from "../../config/text-file.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import type { Logins } from "../../db/cluster/provision.ts";
import { countsOf, type Finding, lineOf, sorted } from "../../db/findings/finding.ts";
import type { Findings } from "../../db/findings/findings.ts";
import { Debounced } from "../../db/follow/debounced.ts";
import { type Acceptances, advise, parseAcceptances } from "./advisor.ts";
import { setupWith } from "./setup.ts";

type LiveAdvisorOptions = {
  readonly pool: Pool;
  /** The logins that take on the roles of callers. */
  readonly logins: Pick<Logins, "data" | "admin">;
  settings(): Pick<Config, "dbSchemas" | "isManaged" | "hasFeed" | "dbAnonRole" | "advisor">;
  /** The folders of more rules. */
  readonly rules: readonly URL[];
  /** Gets the advice: all findings, the most severe first. */
  readonly findings: Findings;
  /** Whether the findings are logged here, and not by another process. */
  readonly logsAdvice: boolean;
  /** Whether another process has logged what the first run finds. */
  readonly isReported: boolean;
  readonly log: Logger;
};

/** The advice on the database that is served. It is renewed after each change of the schema, in the background. */
export class LiveAdvisor {
  readonly #options: LiveAdvisorOptions;
  readonly #lostColumns: LostColumns;
  readonly #runs = new Debounced(
    () => this.#run(),
    (err) => this.#options.log.warn({ err }, "the advisor cannot check the database: it tries again"),
  );
  /** Null before the first run. */
  #logged: Set<string> | null = null;

  constructor(options: LiveAdvisorOptions) {
    this.#options = options;
    this.#lostColumns = new LostColumns(options.pool);
  }

  /** Runs again because the catalog has changed. */
  follow(catalog: Catalog): void {
    this.#lostColumns.follow(catalog);
    this.#runs.soon();
  }

  /** Runs again because an interface may have noticed something. */
  soon(): void {
    this.#runs.soon();
  }

  /** Waits until what is known so far has been checked. */
  settled(): Promise<void> {
    return this.#runs.settled();
  }

  close(): Promise<void> {
    return this.#runs.close();
  }

  async #run(): Promise<void> {
    const { pool, logins, rules, findings: all, logsAdvice, log } = this.#options;
    const settings = this.#options.settings();
    const acceptances = await readAcceptances(settings.advisor);
    const names = [logins.data, logins.admin].map((url) => decodeURIComponent(new URL(url).username));
    const client = await pool.connect();
    try {
      const options = {
        ...(await setupWith(client, names, settings)),
        schemas: settings.dbSchemas,
        acceptances,
        rules,
      };
      const advice = await advise(client, options);
      const lost = (await this.#lostColumns.findings()).filter((each) => !isIn(advice.findings, each));
      const findings = [...lost, ...all.noticed(false), ...advice.findings];
      all.advice = { ...advice, findings: sorted([...all.noticed(true), ...findings]) };
      if (logsAdvice) this.#report(sorted(findings), log);
    } finally {
      client.release();
    }
  }

  /** Logs one line for the findings that are new since the last run. */
  #report(findings: readonly Finding[], log: Logger): void {
    const lines = new Set(findings.filter(({ level }) => level !== "note").map(lineOf));
    const known = this.#logged ?? (this.#options.isReported ? lines : new Set<string>());
    const added = [...lines.difference(known)];
    const isFixed = lines.size === 0 && known.size > 0;
    this.#logged = lines;
    if (isFixed) log.info("the advisor no longer finds errors or warnings in the database");
    if (added.length === 0) return;
    const level = findings.some((each) => each.level === "error") ? "error" : "warn";
    // A database that has been used without the service, such as one of Supabase, has many warnings at once.
    const shown = added.length <= FEW ? added : added.filter((line) => line.startsWith("error ")).slice(0, MAX_LOGGED);
    log[level](
      { ...countsOf(findings), ...(shown.length > 0 && { new: shown }) },
      `the advisor has findings: ${COMMAND} advise shows the SQL that fixes them`,
    );
  }
}

/** Of more new findings than these, only the errors are logged. */
const FEW = 5;
const MAX_LOGGED = 20;

/** Reads the accepted findings, if ADVISOR names a file. It may change while the service runs. */
export async function readAcceptances(advisor: string): Promise<Acceptances> {
  const file = acceptanceFile(advisor);
  if (file === null) return [];
  try {
    return parseAcceptances(readText(file));
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`);
  }
}

const isIn = (findings: readonly Finding[], { rule, object }: Finding) =>
  findings.some((each) => each.rule === rule && each.object === object);

/** A column that was in the previous catalog, and is not in this one: dropped or renamed. */
type LostColumn = { readonly table: string; readonly column: string };

/**
 * Selects the functions whose text names the table and the column. Postgres does not check that text when a column changes. With an
 * empty search_path, as in the rules, Postgres writes each name of a function with its schema.
 */
const usersOf = (table: string, column: string) => `
  set local search_path = '';
  select p.oid::regprocedure::text as name
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  where p.prokind in ('f', 'p') and p.prosqlbody is null and p.oid >= 16384 and n.nspname !~ '^pg_'
    and p.prosrc ~* ${pg.escapeLiteral(`\\m${escaped(table)}\\M`)} and p.prosrc ~* ${pg.escapeLiteral(`\\m${escaped(column)}\\M`)}
  order by name`;

/** Remembers the columns that were dropped or renamed while the service runs, and finds the functions that name them. */
class LostColumns {
  readonly #pool: Pick<Pool, "query">;
  #lost: LostColumn[] = [];
  #catalog: Catalog | null = null;

  constructor(pool: Pick<Pool, "query">) {
    this.#pool = pool;
  }

  follow(catalog: Catalog): void {
    const previous = this.#catalog;
    this.#catalog = catalog;
    if (!previous) return;
    const isThere = ({ table, column }: LostColumn) => columnsOf(catalog).get(table)?.has(column) === true;
    this.#lost = [...this.#lost, ...differences(previous, catalog)].filter((lost) => !isThere(lost)).slice(-MAX);
  }

  async findings(): Promise<readonly Finding[]> {
    const found: Finding[] = [];
    for (const { table, column } of this.#lost) {
      const [, name = table] = table.split(".");
      const results = await this.#pool.query(usersOf(name, column));
      const { rows } = (results as unknown as pg.QueryResult<{ name: string }>[]).at(-1)!;
      for (const { name: user } of rows) found.push(findingOf(user, table, column));
    }
    return found;
  }
}

/** At most this many columns are remembered. */
const MAX = 100;

const findingOf = (user: string, table: string, column: string): Finding => ({
  rule: "function-uses-missing-column",
  level: "error",
  object: `function ${user}`,
  reason: `it names the column ${column} of ${table}, which was dropped or renamed`,
  fix: `-- Write the function again without the column; to see it: \\sf ${user.replace(/\(.*/s, "")}`,
});

function columnsOf({ schemas }: Catalog): ReadonlyMap<string, ReadonlyMap<string, unknown>> {
  const tables = [...schemas.values()].flatMap((schema) => [...schema.tables.values()]);
  return new Map(tables.map(({ schema, name, columns }) => [`${schema}.${name}`, columns]));
}

/** The columns that only `before` has, of tables that still exist. Calls of functions that use a dropped table fail anyway. */
function differences(before: Catalog, after: Catalog): LostColumn[] {
  const remaining = columnsOf(after);
  return [...columnsOf(before)].flatMap(([table, columns]) => {
    const now = remaining.get(table);
    if (!now || now === columns) return [];
    return [...columns.keys()].filter((column) => !now.has(column)).map((column) => ({ table, column }));
  });
}

const escaped = (name: string) => name.replace(/[^\w]/g, "\\$&");

import pg, { type Pool } from "pg";
import type { Catalog } from "../catalog/catalog.ts";
import type { Finding } from "./finding.ts";

/** A column that was in the previous catalog, and is not in this one: dropped or renamed. */
type LostColumn = { readonly table: string; readonly column: string };

/**
 * Functions whose text names the table and the column. Postgres does not check the text when a column changes. With an empty search
 * path it writes every name with its schema, as for the rules.
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
export class LostColumns {
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
  fix: `-- Write the function again without it: \\sf ${user.replace(/\(.*/s, "")}`,
});

function columnsOf({ schemas }: Catalog): ReadonlyMap<string, ReadonlyMap<string, unknown>> {
  const tables = [...schemas.values()].flatMap((schema) => [...schema.tables.values()]);
  return new Map(tables.map(({ schema, name, columns }) => [`${schema}.${name}`, columns]));
}

/** Columns of tables that still exist: the functions of a dropped table are found when they are called. */
function differences(before: Catalog, after: Catalog): LostColumn[] {
  const remaining = columnsOf(after);
  return [...columnsOf(before)].flatMap(([table, columns]) => {
    const now = remaining.get(table);
    if (!now || now === columns) return [];
    return [...columns.keys()].filter((column) => !now.has(column)).map((column) => ({ table, column }));
  });
}

const escaped = (name: string) => name.replace(/[^\w]/g, "\\$&");

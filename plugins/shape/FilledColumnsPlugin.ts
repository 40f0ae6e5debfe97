import { withPgClientFromPgService } from "postgraphile/graphile-build-pg";
import type { PgAttribute } from "postgraphile/graphile-build-pg/pg-introspection";

/** A function that runs before each insert into a table. */
type Filler = {
  readonly relation: string;
  readonly language: string;
  readonly source: string;
  /** `… FOR EACH ROW WHEN ((new.email IS NOT NULL)) EXECUTE FUNCTION …` */
  readonly definition: string;
};

// 1 is FOR EACH ROW, 2 is BEFORE, 4 is INSERT.
const FILLERS = `
  select t.tgrelid::text as relation, l.lanname as language, p.prosrc as source,
    pg_catalog.pg_get_triggerdef(t.oid) as definition
  from pg_catalog.pg_trigger as t
  join pg_catalog.pg_proc as p on p.oid = t.tgfoid
  join pg_catalog.pg_language as l on l.oid = p.prolang
  where t.tgtype & 7 = 7 and not t.tgisinternal and t.tgenabled <> 'D'`;

/** Columns to which a trigger may give a value before an insert. */
const filled = new WeakSet<PgAttribute>();

/**
 * `CreateTaskInput.number: Int`: a column that a trigger may fill before the insert is not required, as if it had a default. Nor is one
 * of a view: its table has the default, or a trigger or rule of the view writes the row.
 */
export const FilledColumnsPlugin: GraphileConfig.Plugin = {
  name: "FilledColumnsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      async pgIntrospection_introspection(info, { introspection, serviceName }) {
        const service = info.resolvedPreset.pgServices!.find(({ name }) => name === serviceName)!;
        const fillers = await withPgClientFromPgService(service, null, (client) =>
          client.query<Filler>({ text: FILLERS }),
        );
        const byTable = Map.groupBy(fillers.rows, ({ relation }) => relation);
        for (const attribute of introspection.attributes) {
          const ofTable = byTable.get(attribute.attrelid) ?? [];
          const isOfView = attribute.getClass()?.relkind === "v";
          if (isOfView || ofTable.some((filler) => mayFill(filler, attribute.attname))) filled.add(attribute);
        }
      },
      pgCodecs_attribute(_info, { pgAttribute, attribute }) {
        if (filled.has(pgAttribute)) attribute.hasDefault = true;
      },
    },
  },
};

/**
 * Whether a trigger may give the column a value if it has none: its function names the column, or it uses the whole row for more than
 * to return it.
 *
 *   begin new.number := 1; return new; end                       -- number
 *   begin new := jsonb_populate_record(new, …); return new; end  -- every column
 */
function mayFill({ language, source, definition }: Filler, column: string): boolean {
  const [, condition = ""] = / WHEN \((.*)\) EXECUTE /.exec(definition) ?? [];
  // It does not run for a row without a value.
  if (condition.includes(`(new.${column} IS NOT NULL)`) && !/\bor\b/i.test(condition)) return false;
  const rest = source.replace(/\breturn\s+(new|null)\s*;/gi, "");
  const usesRow = /\bnew\b(?!\s*\.)|\breturn\b/i.test(rest);
  return language !== "plpgsql" || usesRow || new RegExp(`\\b${RegExp.escape(column)}\\b`, "i").test(rest);
}

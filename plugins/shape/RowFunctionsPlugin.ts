import type { Introspection, PgClass, PgProc } from "pg-introspection";
import type {} from "postgraphile";

/**
 * `Crate.label`, `Barrel.label`, `Cat.nick`: PostgreSQL chooses a function by the type of its argument, and the row of an inheriting
 * table is one of its parent. PostGraphile leaves out all functions that have the name of another one, and those of the parent. Of
 * functions with one name, those whose first arguments are rows of different tables are fields; one other function may have their name.
 */
export const RowFunctionsPlugin: GraphileConfig.Plugin = {
  name: "RowFunctionsPlugin",
  version: "1.0.0",
  after: ["PgProceduresPlugin", "SpelledNamesPlugin", "NamesakesPlugin"],
  inflection: {
    replace: {
      functionResourceName(previous, _options, details) {
        const { rowsOf } = details.pgProc;
        return rowsOf === undefined ? previous!(details) : `${previous!(details)}_of_${rowsOf}`;
      },
    },
  },
  gather: {
    hooks: {
      async pgIntrospection_proc({ helpers, inflection }, { entity: proc, serviceName }) {
        const all = await helpers.pgIntrospection.getIntrospection();
        const { introspection } = all.find(({ pgService }) => pgService.name === serviceName)!;
        const table = rowTableOf(introspection, proc);
        const namesakes = introspection.procs.filter((other) => isNamesake(other, proc));
        if (namesakes.length > 1 && isServed(introspection, proc, namesakes)) {
          if (table) proc.rowsOf = table.relname;
          await helpers.pgProcedures.getResourceOptions(serviceName, proc);
        }
        const taken = new Set(namesakes.map((each) => each.proargtypes![0]));
        if (!table || taken.size < namesakes.length) return;
        for (const child of heirsOf(introspection, table)) {
          const isColumn = child.getAttributes().some(({ attname }) => attname === proc.proname);
          if (isColumn || taken.has(child.reltype!)) continue;
          taken.add(child.reltype!);
          await helpers.pgProcedures.getResourceOptions(serviceName, forRowsOf(child, proc, table, inflection));
        }
      },
    },
  },
};

const isNamesake = (one: PgProc, other: PgProc): boolean =>
  one.pronamespace === other.pronamespace && one.proname === other.proname;

/** The table of whose rows the first argument is one, for a function that is a field of them. */
function rowTableOf({ classes }: Introspection, { provolatile, proargtypes }: PgProc): PgClass | undefined {
  const type = provolatile === "v" ? undefined : proargtypes?.[0];
  return type ? classes.find(({ reltype, relkind }) => reltype === type && "rvmfp".includes(relkind)) : undefined;
}

function isServed(introspection: Introspection, proc: PgProc, namesakes: readonly PgProc[]): boolean {
  const { proname, pronamespace, prorettype, proargtypes } = proc;
  const isRange = introspection.types.some(
    ({ typname, typnamespace, typtype }) => typtype === "r" && typname === proname && typnamespace === pronamespace,
  );
  if (isRange || prorettype === TRIGGER || proname.startsWith("__")) return false;
  const alike = rowTableOf(introspection, proc)
    ? namesakes.filter((other) => other.proargtypes?.[0] === proargtypes![0])
    : namesakes.filter((other) => !rowTableOf(introspection, other));
  return alike.length === 1;
}

const TRIGGER = "2279";

/** The tables that inherit from a table, also through others. Of partitions only those that are served beside their root. */
function heirsOf({ inherits, classes }: Introspection, parent: PgClass): readonly PgClass[] {
  const exposed = parent.getTags().partitionExpose;
  return inherits
    .filter(({ inhparent }) => inhparent === parent._id)
    .flatMap(({ inhrelid }) => classes.filter(({ _id }) => _id === inhrelid))
    .filter(({ relispartition }) => !relispartition || exposed === "child" || exposed === "both")
    .flatMap((child) => [child, ...heirsOf({ inherits, classes } as Introspection, child)]);
}

/** The function, called with the row of an heir. Its field has the name of that of the parent. */
function forRowsOf(heir: PgClass, proc: PgProc, parent: PgClass, inflection: GraphileBuild.Inflection): PgProc {
  const withHeir = (types: readonly string[] | null) => types && [heir.reltype!, ...types.slice(1)];
  const { tags, description } = proc.getTagsAndDescription();
  const fieldName = inflection.camelCase(withoutTable(proc.proname, parent.relname));
  const named = { tags: { fieldName, ...tags }, description };
  return Object.assign(Object.create(proc), {
    _id: `${proc._id} ${heir._id}`,
    proargtypes: withHeir(proc.proargtypes)!,
    proallargtypes: withHeir(proc.proallargtypes),
    getTagsAndDescription: () => named,
    getTags: () => named.tags,
    rowsOf: heir.relname,
  });
}

/** `crates_label` → `label` */
export const withoutTable = (name: string, table: string): string =>
  name.startsWith(`${table}_`) ? name.slice(table.length + 1) : name;

declare module "pg-introspection" {
  interface PgProc {
    /** The table whose rows it is called with, if other functions have its name. */
    rowsOf?: string;
  }
}

import { type Catalog, quoteName, type Schema, type Table, tableOf } from "../../../db/catalog/catalog.ts";
import { mayExecute, mayUseSchema } from "../../../db/catalog/grants.ts";
import { isVisible, type TableAccess, tableAccess } from "../tables/visible-schema.ts";

/** The part of a catalog that types describe, and what may be done with its tables. */
export type ShownCatalog = { readonly catalog: Catalog; accessOf(table: Table): TableAccess };

/** All of the catalog. */
export const wholeCatalog = (catalog: Catalog): ShownCatalog => ({
  catalog,
  accessOf: (table) => tableAccess(catalog, table, { role: "", ignorePrivileges: true }),
});

/** What a role may use. The columns of its tables are those that it can read. */
export function catalogFor(catalog: Catalog, role: string): ShownCatalog {
  const schemas = [...catalog.schemas.values()]
    .filter((schema) => mayUseSchema(catalog, role, schema))
    .map((schema): Schema => ({ ...schema, functions: functionsFor(schema, catalog, role) }));
  const isExecutable = executables(catalog, schemas);
  const accesses = new Map<Table, TableAccess>();
  const isShown = (name: { schema: string; name: string }): boolean => {
    const table = tableOf(catalog, name);
    return table !== undefined && isVisible(tableAccess(catalog, table, { role }));
  };
  const shown = schemas.map((schema): [string, Schema] => {
    const tables = new Map<string, Table>();
    for (const table of schema.tables.values()) {
      const access = tableAccess(catalog, table, { role });
      if (!isVisible(access)) continue;
      const part: Table = {
        ...table,
        columns: new Map(access.readable.map((column) => [column.name, column])),
        computedFields: new Map([...table.computedFields].filter(([, field]) => isExecutable(field.function))),
        relationships: table.relationships.filter(({ target }) => isShown(target)),
      };
      tables.set(table.name, part);
      accesses.set(part, access);
    }
    return [schema.name, { ...schema, tables }];
  });
  return { catalog: { ...catalog, schemas: new Map(shown) }, accessOf: (table) => accesses.get(table)! };
}

const functionsFor = ({ functions }: Schema, catalog: Catalog, role: string): Schema["functions"] =>
  Map.groupBy(
    [...functions.values()].flat().filter((each) => mayExecute(catalog, role, each)),
    ({ name }) => name,
  );

/** Whether a function, by its SQL name, is one of these schemas, or of a schema that is searched and not served. */
function executables(catalog: Catalog, schemas: readonly Schema[]): (name: string) => boolean {
  const namesIn = (all: Iterable<Schema>) =>
    new Set([...all].flatMap(({ functions }) => [...functions.values()].flat()).map(quoteName));
  const [served, executable] = [namesIn(catalog.schemas.values()), namesIn(schemas)];
  return (name) => executable.has(name) || !served.has(name);
}

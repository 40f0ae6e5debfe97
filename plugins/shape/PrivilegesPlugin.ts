import type {} from "postgraphile";
import { PgRBACPlugin } from "postgraphile/graphile-build-pg";
import {
  type Catalog,
  type Role,
  type Schema,
  type Table,
  type TableKind,
  type TablePrivilege,
  tableOf,
} from "../../db/catalog/catalog.ts";
import { readsColumns, readsEveryRow } from "../../db/catalog/exposure.ts";
import { mayExecute, mayUseColumn, mayUseEveryColumn, mayUseSchema, mayUseTable } from "../../db/catalog/grants.ts";

/** The catalog, and the roles whose privileges form the schema that a login serves. */
export type PrivilegeSource = {
  catalog(): Catalog;
  /** Resolves when the catalog knows everything that was committed before the call. */
  readCatalog(): Promise<unknown>;
  rolesOf(login: string): readonly Role[];
};

/**
 * The schema has what at least one caller may use: tables, columns and functions that a role has privileges for; keys and
 * references whose columns a role may read. A reference is non-null only if every caller who can read it can read each row that it refers to. An input requires a column only if every
 * caller who may insert rows may insert the column. Replaces the plugin of PostGraphile, which reads the privileges of the login.
 */
export function privilegesPlugin({ catalog, readCatalog, rolesOf }: PrivilegeSource): GraphileConfig.Plugin {
  /** Of the build that runs now. */
  let callers = new Callers(catalog(), []);
  return {
    ...PgRBACPlugin,
    name: "PrivilegesPlugin",
    version: "1.0.0",
    before: ["ViewKeysPlugin"],
    gather: {
      hooks: {
        async pgIntrospection_introspection(_info, { introspection }) {
          // DDL that was committed after the catalog was read: without the catalog, nothing of it would be served.
          if (introspection.classes.some((each) => isMissing(each, catalog()))) await readCatalog();
          const current = catalog();
          callers = new Callers(current, rolesOf(introspection.getCurrentUser()!.rolname));
        },
        pgTables_PgResourceOptions(_info, { pgClass, resourceOptions }) {
          if (!isTable(pgClass)) return;
          const table = callers.table(nameOf(pgClass));
          const may = (privilege: TablePrivilege) => table !== undefined && callers.mayUse(table, privilege);
          const [canSelect, canInsert, canUpdate, canDelete] = PRIVILEGES.map(may);
          const uniques = resourceOptions.uniques ?? [];
          const isReadable = ({ attributes }: (typeof uniques)[number]) =>
            table !== undefined && callers.mayRead(table, attributes as readonly string[]);
          resourceOptions.uniques = uniques.filter(isReadable);
          const hidesKey = uniques.some((unique) => unique.isPrimary && !isReadable(unique));
          const hasPlaces = table !== undefined && callers.allReadPlaces(table);
          const rights = { canSelect, canInsert, canUpdate, canDelete, hidesKey, hasPlaces };
          resourceOptions.extensions = { ...resourceOptions.extensions, ...rights } as never;
        },
        pgCodecs_attribute(_info, { pgClass, pgAttribute, attribute }) {
          const table = isTable(pgClass) ? callers.table(nameOf(pgClass)) : undefined;
          if (!table) return;
          const may = (privilege: TablePrivilege) => callers.mayUseColumn(table, pgAttribute.attname, privilege);
          const [canSelect, canInsert, canUpdate] = PRIVILEGES.map(may);
          attribute.extensions = { ...attribute.extensions, canSelect, canInsert, canUpdate } as never;
          if (!callers.allMay("insert", table, pgAttribute.attname)) attribute.hasDefault = true;
          attribute.restrictedAccess = !callers.allMay("select", table, pgAttribute.attname);
        },
        pgProcedures_PgResourceOptions(_info, { pgProc, resourceOptions }) {
          const grantees = new Set(pgProc.getACL().flatMap(({ execute, role }) => (execute ? [role] : [])));
          const owner = pgProc.getOwner()!.rolname;
          const canExecute = callers.mayExecute(pgProc.getNamespace()!.nspname, { owner, grantees });
          resourceOptions.extensions = { ...resourceOptions.extensions, canExecute } as never;
        },
        pgRelations_relation(_info, { pgConstraint, relation }) {
          const reference = {
            from: nameOf(pgConstraint.getClass()!),
            columns: pgConstraint.getAttributes()!.map(({ attname }) => attname),
            to: nameOf(pgConstraint.getForeignClass()!),
            keys: pgConstraint.getForeignAttributes()!.map(({ attname }) => attname),
          };
          const mayJoin = callers.mayJoin(reference, relation.isReferencee ? reference.from : reference.to);
          // A view has no foreign keys: a smart tag describes its rows, and does not say that the others exist.
          const isCertain =
            !relation.isReferencee && pgConstraint.convalidated && !pgConstraint._id.startsWith("FAKE_");
          const findsRow = isCertain && callers.allFindRow(reference);
          relation.extensions = { ...relation.extensions, mayJoin, findsRow } as never;
        },
        pgRegistry_PgRegistryBuilder_finalize(_info, { registryBuilder }) {
          for (const relations of Object.values(registryBuilder.getRegistryConfig().pgRelations)) {
            for (const [name, { extensions }] of Object.entries<any>(relations)) {
              if (!extensions.mayJoin) delete relations[name];
            }
          }
        },
      },
    },
  };
}

const PLACED: readonly TableKind[] = ["table", "partitioned table", "materialized view"];
const PRIVILEGES = ["select", "insert", "update", "delete"] as const;

type Relation = { readonly relkind: string; readonly relname: string; getNamespace(): { nspname: string } | undefined };
type Name = { readonly schema: string; readonly name: string };

const isTable = ({ relkind }: Relation): boolean => "rvmfp".includes(relkind);
const nameOf = (relation: Relation): Name => ({
  schema: relation.getNamespace()?.nspname ?? "",
  name: relation.relname,
});

/** Whether a table or view of a served schema is not in the catalog. */
function isMissing(relation: Relation & { readonly relispartition: boolean | null }, catalog: Catalog): boolean {
  const { schema, name } = nameOf(relation);
  return isTable(relation) && !relation.relispartition && catalog.schemas.get(schema)?.tables.has(name) === false;
}

/** A foreign key: the columns of one table, and the key of the other. */
type Reference = {
  readonly from: Name;
  readonly columns: readonly string[];
  readonly to: Name;
  readonly keys: readonly string[];
};

/** What roles may use: at least one of them, or all that the question is about. */
class Callers {
  readonly #catalog: Catalog;
  readonly #roles: readonly Role[];

  constructor(catalog: Catalog, roles: readonly Role[]) {
    this.#catalog = catalog;
    this.#roles = roles;
  }

  table(name: Name): Table | undefined {
    return tableOf(this.#catalog, name);
  }

  mayUse(table: Table, privilege: TablePrivilege): boolean {
    return this.#of(table).some(({ name }) => mayUseTable(this.#catalog, name, table, privilege));
  }

  mayUseColumn(table: Table, name: string, privilege: TablePrivilege): boolean {
    const column = table.columns.get(name);
    return (
      column !== undefined &&
      this.#of(table).some((role) => mayUseColumn(this.#catalog, role.name, table, column, privilege))
    );
  }

  mayExecute(schemaName: string, details: Parameters<typeof mayExecute>[2]): boolean {
    return this.#in(this.#catalog.schemas.get(schemaName)).some(({ name }) => mayExecute(this.#catalog, name, details));
  }

  /** Whether the roles that may insert or read rows may all insert or read this column. */
  allMay(privilege: "insert" | "select", table: Table, name: string): boolean {
    const column = table.columns.get(name);
    return (
      column !== undefined &&
      this.#of(table)
        .filter((role) => mayUseTable(this.#catalog, role.name, table, privilege))
        .every((role) => mayUseColumn(this.#catalog, role.name, table, column, privilege))
    );
  }

  /** Whether the rows have a `ctid`, and the roles that may read rows may all read it. */
  allReadPlaces(table: Table): boolean {
    return (
      PLACED.includes(table.kind) &&
      this.#of(table)
        .filter(({ name }) => mayUseTable(this.#catalog, name, table, "select"))
        .every(({ name }) => mayUseEveryColumn(this.#catalog, name, table, "select"))
    );
  }

  /** Whether one role can read all of these columns. */
  mayRead(table: Table, columns: readonly string[]): boolean {
    return this.#roles.some(({ name }) => readsColumns(this.#catalog, name, table, columns));
  }

  /** Whether roles can read the columns of both tables, and rows of the remote one. Functions return the rows of a table that no role may read. */
  mayJoin({ from, columns, to, keys }: Reference, remote: Name): boolean {
    const reached = this.table(remote);
    if (reached === undefined || !this.mayUse(reached, "select")) return false;
    const isReadable = (name: Name, read: readonly string[]) => {
      const table = this.table(name);
      return table !== undefined && (!this.mayUse(table, "select") || this.mayRead(table, read));
    };
    return isReadable(from, columns) && isReadable(to, keys);
  }

  /** Whether the roles that can read the columns of the reference can all read each row that it may refer to. */
  allFindRow({ from, columns, to, keys }: Reference): boolean {
    const [source, target] = [this.table(from), this.table(to)];
    if (!source || !target) return false;
    return this.#roles
      .filter(({ name }) => readsColumns(this.#catalog, name, source, columns))
      .every((role) => readsEveryRow(this.#catalog, role, target, keys));
  }

  #of({ schema }: Table): readonly Role[] {
    return this.#in(this.#catalog.schemas.get(schema));
  }

  #in(schema: Schema | undefined): readonly Role[] {
    return schema ? this.#roles.filter(({ name }) => mayUseSchema(this.#catalog, name, schema)) : [];
  }
}

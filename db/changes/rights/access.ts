import type { Catalog, ReadPolicy, Table } from "../../catalog/catalog.ts";
import { mayUseColumn, mayUseSchema } from "../../catalog/grants.ts";

/** What a role may read of a table. */
export type Access = {
  readonly columns: ReadonlySet<string>;
  /** SQL text of the condition for a row; null if every row may be read. */
  readonly condition: string | null;
};

/** A reason why a role sees no change of a table, for the developer of a client. */
export type Refusal = { readonly refusal: string };

/** What the role may read, as Postgres decides it for a SELECT. Undefined while the policies cannot be read. */
export function accessOf(catalog: Catalog, role: string, table: Table): Access | Refusal | undefined {
  const name = `${table.schema}.${table.name}`;
  if (!mayUseSchema(catalog, role, catalog.schemas.get(table.schema)!))
    return { refusal: `the role ${role} has no USAGE on the schema ${table.schema}` };
  const columns = [...table.columns.values()].filter((column) => mayUseColumn(catalog, role, table, column, "select"));
  if (columns.length === 0) return { refusal: `the role ${role} may not SELECT from ${name}` };
  const access = { columns: new Set(columns.map((column) => column.name)) };
  if (!isRestricted(catalog, role, table)) return { ...access, condition: null };

  const inherited = catalog.roles.get(role)?.inherits ?? new Set(["public"]);
  const policies = table.rowSecurity.policies.filter(({ roles }) => !roles.isDisjointFrom(inherited));
  if (policies.some(({ condition }) => condition === null)) return undefined;
  const [permissive, restrictive] = [true, false].map((kind) => policies.filter((each) => each.isPermissive === kind));
  if (permissive!.length === 0)
    return { refusal: `row-level security is on for ${name}, and no policy lets the role ${role} read a row` };
  return { ...access, condition: combined(permissive!.map(textOf), restrictive!.map(textOf)) };
}

/** All restrictive policies and one permissive one must hold, in the order of Postgres. Null for every row. */
function combined(permissive: readonly string[], restrictive: readonly string[]): string | null {
  const all = restrictive.filter((condition) => condition !== "true");
  if (!permissive.includes("true")) all.push(joined(" OR ", permissive));
  return all.length === 0 ? null : joined(" AND ", all);
}

/** Whether row-level security applies. Source: check_enable_rls in PostgreSQL. */
export function isRestricted({ roles }: Catalog, role: string, { owner, rowSecurity }: Table): boolean {
  const known = roles.get(role);
  if (!rowSecurity.isEnabled || known?.bypassesRowSecurity) return false;
  return rowSecurity.isForced || !known?.inherits.has(owner);
}

const textOf = ({ condition }: ReadPolicy): string => condition!;

/** Brackets around each condition, as Postgres writes them. */
const joined = (operator: string, conditions: readonly string[]): string =>
  conditions.length === 1 ? conditions[0]! : `(${conditions.map((condition) => `(${condition})`).join(operator)})`;

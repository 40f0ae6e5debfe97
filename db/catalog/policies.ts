import type { Catalog, RowPolicy, RowSecurity, Table } from "./catalog.ts";
import type { Grants } from "./grants.ts";
import type { Oid, RelationRow } from "./relations.ts";

export type PolicyRow = Omit<RowPolicy, "roles"> & {
  readonly relation: Oid;
  /** "0" is public. */
  readonly roles: readonly Oid[];
};

/** The command of a row of pg_policy, as SQL. */
export const COMMAND =
  "case polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end";

// The text of an expression cannot be read while another transaction changes one of its tables.
export const POLICIES = `
  select p.polrelid as relation, p.polname as name, ${COMMAND} as command, p.polpermissive as "isPermissive", p.polroles as roles,
    l."isLocked",
    case when not l."isLocked" then pg_get_expr(p.polqual, p.polrelid) end as using,
    case when not l."isLocked" then pg_get_expr(p.polwithcheck, p.polrelid) end as check
  from relations as r
  join pg_policy as p on p.polrelid = r.oid
  cross join lateral (
    select p.polrelid in (select relation from locked) or exists (
      select from pg_depend as d
      join locked on locked.relation = d.refobjid
      where d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
    ) as "isLocked"
  ) as l
  where r."isServed"
  order by p.polrelid, p.polname`;

/** The row-level security of each table. */
export class Policies {
  readonly #byRelation: ReadonlyMap<Oid, readonly PolicyRow[]>;
  readonly #grants: Grants;

  constructor(rows: readonly PolicyRow[], grants: Grants) {
    this.#byRelation = Map.groupBy(rows, ({ relation }) => relation);
    this.#grants = grants;
  }

  of({ oid, hasRowSecurity, isRowSecurityForced }: RelationRow): RowSecurity {
    return Object.freeze({
      isEnabled: hasRowSecurity,
      isForced: isRowSecurityForced,
      policies: (this.#byRelation.get(oid) ?? []).map((row) => this.#build(row)),
    });
  }

  #build({ relation: _, roles, ...policy }: PolicyRow): RowPolicy {
    return Object.freeze({ ...policy, roles: new Set(roles.map((role) => this.#grants.roleOf(role))) });
  }
}

/**
 * The policies of a table that apply to a role; null if row-level security does not restrict it. Source: check_enable_rls in PostgreSQL.
 */
export function policiesFor({ roles }: Catalog, role: string, table: Table): readonly RowPolicy[] | null {
  const { isEnabled, isForced, policies } = table.rowSecurity;
  const { bypassesRowSecurity = false, inherits = new Set(["public"]) } = roles.get(role) ?? {};
  if (!isEnabled || bypassesRowSecurity || (!isForced && inherits.has(table.owner))) return null;
  return policies.filter((policy) => !policy.roles.isDisjointFrom(inherits));
}

/** SQL text of the condition for rows that exist, or for rows that are written: USING, if there is no WITH CHECK. */
export const clauseOf = (
  { using, check }: Pick<RowPolicy, "using" | "check">,
  part: "using" | "check",
): string | null => (part === "using" ? using : (check ?? using));

/**
 * SQL text of the condition under which these policies allow a row to be read or inserted: all restrictive ones and one permissive
 * one must hold, in the order of Postgres. "true" for every row, null for none, undefined while a policy cannot be read.
 */
export function conditionFor(
  command: "select" | "insert",
  policies: readonly Omit<RowPolicy, "name" | "roles">[],
): string | null | undefined {
  const relevant = policies.filter((policy) => policy.command === command || policy.command === "all");
  if (relevant.some(({ isLocked }) => isLocked)) return undefined;
  const conditions = (isPermissive: boolean) =>
    relevant
      .filter((policy) => policy.isPermissive === isPermissive)
      .flatMap((policy) => clauseOf(policy, command === "select" ? "using" : "check") ?? []);
  const permissive = conditions(true);
  if (permissive.length === 0) return null;
  const all = conditions(false).filter((condition) => condition !== "true");
  if (!permissive.includes("true")) all.push(joined(" OR ", permissive));
  return all.length === 0 ? "true" : joined(" AND ", all);
}

/** Brackets around each condition, as Postgres writes them. */
const joined = (operator: string, conditions: readonly string[]): string =>
  conditions.length === 1 ? conditions[0]! : `(${conditions.map((condition) => `(${condition})`).join(operator)})`;

import type { ReadPolicy, RowSecurity } from "./catalog.ts";
import type { Grants } from "./grants.ts";
import type { Oid, RelationRow } from "./relations.ts";

export type PolicyRow = {
  readonly relation: Oid;
  readonly name: string;
  readonly isPermissive: boolean;
  /** "0" is public. */
  readonly roles: readonly Oid[];
  readonly condition: string | null;
};

// A policy without USING lets no row be read. The text of an expression cannot be read while another transaction changes one of
// its tables.
export const POLICIES = `
  select p.polrelid as relation, p.polname as name, p.polpermissive as "isPermissive", p.polroles as roles,
    case
      when p.polrelid not in (select relation from locked) and not exists (
        select from pg_depend as d
        join locked on locked.relation = d.refobjid
        where d.classid = 'pg_policy'::regclass and d.objid = p.oid and d.refclassid = 'pg_class'::regclass
      ) then pg_get_expr(p.polqual, p.polrelid)
    end as condition
  from relations as r
  join pg_policy as p on p.polrelid = r.oid
  where r."isServed" and p.polcmd in ('r', '*') and p.polqual is not null
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

  #build({ name, isPermissive, roles, condition }: PolicyRow): ReadPolicy {
    return Object.freeze({
      name,
      isPermissive,
      roles: new Set(roles.map((role) => this.#grants.roleOf(role))),
      condition,
    });
  }
}

/** What is logged of the old row: d the primary key, f the whole row, i the columns of an index, n nothing. */
type Identity = "d" | "f" | "i" | "n";

/** A table without partitions, or a partition. */
export type Relation = {
  readonly oid: number;
  /** SQL text: `"public"."articles"` */
  readonly name: string;
  readonly identity: Identity;
  /** Whether it has a primary key that is not deferrable. */
  readonly hasKey: boolean;
  readonly hasIdentityIndex: boolean;
  readonly hasVirtualColumn: boolean;
  /** Whether it is neither temporary nor unlogged. */
  readonly isLogged: boolean;
};

/** A table of a served schema. */
export type TableState = {
  readonly oid: number;
  readonly schema: string;
  readonly table: string;
  /** Both as SQL text. */
  readonly name: string;
  /** Whether a role that callers may become may read it. */
  readonly isReadable: boolean;
  readonly isPublished: boolean;
  /** The table itself, or its partitions. */
  readonly relations: readonly Relation[];
};

/**
 * Decides how a table can be published without making its updates and deletes fail: returns the relations whose identity must
 * be changed first, or why the table cannot be published. Whole old rows are preferred, because policies can be checked on them.
 * `mayAlter` is whether identities may be changed.
 * Source: PostgreSQL documentation, "Replica Identity", and what PostgreSQL 15 and 18 do (docs/realtime.md).
 */
export function planReplicaIdentities(
  { relations }: Pick<TableState, "relations">,
  mayAlter: boolean,
): string | IdentityChange[] {
  const changes: IdentityChange[] = [];
  for (const relation of relations) {
    const identity = identityFor(relation);
    if (identity.length > 1) return identity;
    if (identity === relation.identity) continue;
    if (mayAlter) changes.push({ oid: relation.oid, name: relation.name, identity: identity as Identity });
    else if (relation.identity !== "d" || !relation.hasKey)
      return `updates and deletes of ${relation.name} would fail: alter table ${relation.name} replica identity ${identity === "f" ? "full" : "default"}`;
  }
  return changes;
}

type IdentityChange = { readonly oid: number; readonly name: string; readonly identity: Identity };

function identityFor({
  name,
  identity,
  hasKey,
  hasIdentityIndex,
  hasVirtualColumn,
  isLogged,
}: Relation): Identity | string {
  if (!isLogged) return `${name} is unlogged: alter table ${name} set logged`;
  if (identity === "n")
    return `the replica identity of ${name} is nothing, so its updates and deletes would fail: alter table ${name} replica identity default`;
  // A DBA has chosen the index.
  if (identity === "i" && hasIdentityIndex) return "i";
  if (!hasVirtualColumn) return "f";
  if (hasKey) return "d";
  return `${name} has a virtual generated column and no primary key, so its updates and deletes would fail: add a primary key`;
}

/**
 * The tables of the schemas $1, as TableState. $2 are the logins whose roles callers may become, $3 is the publication.
 * Partitions belong to their table.
 */
export const tablesQuery = `
with callers as materialized (
  select r.oid
  from pg_catalog.pg_roles as r
  where not r.rolsuper and r.rolname !~ '^pg_'
    and exists (select from unnest($2::text[]) as login where pg_has_role(login, r.oid, 'member') and login <> r.rolname)
  union
  select r.oid
  from pg_catalog.pg_roles as r
  where not r.rolsuper and r.rolname = any ($2)
    and not exists (select from pg_catalog.pg_auth_members as m where m.member = r.oid)
)
select
  c.oid,
  n.nspname as schema,
  c.relname as table,
  format('%I.%I', n.nspname, c.relname) as name,
  exists (
    select from callers
    where has_table_privilege(callers.oid, c.oid, 'select') or has_any_column_privilege(callers.oid, c.oid, 'select')
  ) as "isReadable",
  exists (
    select from pg_catalog.pg_publication_tables as p
    where p.pubname = $3 and p.schemaname = n.nspname and p.tablename = c.relname
  ) as "isPublished",
  (
    select coalesce(json_agg(json_build_object(
      'oid', leaf.oid::bigint,
      'name', format('%I.%I', leaf_schema.nspname, leaf.relname),
      'identity', leaf.relreplident,
      'hasKey', exists (
        select from pg_catalog.pg_index as i
        where i.indrelid = leaf.oid and i.indisprimary and i.indimmediate and i.indisvalid
      ),
      'hasIdentityIndex', exists (
        select from pg_catalog.pg_index as i where i.indrelid = leaf.oid and i.indisreplident and i.indisvalid
      ),
      'hasVirtualColumn', exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = leaf.oid and a.attgenerated = 'v' and not a.attisdropped
      ),
      'isLogged', leaf.relpersistence = 'p'
    )), '[]')
    from (select c.oid where c.relkind = 'r'
      union
      select relid from pg_partition_tree(c.oid) where isleaf and c.relkind = 'p') as part (oid)
    join pg_catalog.pg_class as leaf on leaf.oid = part.oid
    join pg_catalog.pg_namespace as leaf_schema on leaf_schema.oid = leaf.relnamespace
  ) as relations
from pg_catalog.pg_class as c
join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = any ($1) and c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
order by n.nspname, c.relname`;

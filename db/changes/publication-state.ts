import type { ClientBase } from "pg";

/** What is logged of the old row: d the primary key, f the whole row, i the columns of an index, n nothing. */
export type Identity = "d" | "f" | "i" | "n";

/** A table without partitions, or a partition. */
export type Relation = {
  readonly oid: number;
  /** SQL text: `"public"."posts"` */
  readonly name: string;
  readonly identity: Identity;
  /** Whether it has a primary key that is not deferrable. */
  readonly hasKey: boolean;
  readonly hasIdentityIndex: boolean;
  readonly hasVirtualColumn: boolean;
  readonly hasStoredColumn: boolean;
  /** The columns that are logged of old rows. */
  readonly oldColumns: readonly string[];
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
  /** The OID of its entry in the publication; its own if the publication does not name it. */
  readonly entry: number;
  /** Changes when the publication gets other options, or the table another entry or a partition that was a table before. */
  readonly membership: string | null;
  readonly columns: readonly string[];
  /** The columns of new rows that are published; null if it is not published. */
  readonly publishedColumns: readonly string[] | null;
  /** Columns that are always generated, stored: PostgreSQL 18 and later can publish them. */
  readonly generatedColumns: readonly string[];
  /** The columns that the policies for reading by callers read. */
  readonly policyColumns: readonly string[];
  readonly comment: string | null;
  /** Whether it has partitions and no primary key, which a new partition would inherit. */
  readonly isKeylessParent: boolean;
  /** The table itself, or its partitions. */
  readonly relations: readonly Relation[];
};

/** What a publication sends, as far as it decides whether writes of its tables fail. */
export type PublicationState = {
  readonly name: string;
  readonly publishesUpdates: boolean;
  readonly publishesDeletes: boolean;
  /** Whether it has the values of stored generated columns; also true before PostgreSQL 18, where that does not matter. */
  readonly publishesGenerated: boolean;
  /** Whether a table with partitions is published as itself; otherwise its partitions are. */
  readonly publishesRoots: boolean;
};

/**
 * The tables of the schemas $1, as TableState. $2 are the logins whose roles callers may become, $3 is the publication.
 * Partitions belong to their table.
 */
const queryOf = (condition: string) => `
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
),
policies as materialized (
  select p.*, callers.oid as caller,
    bool_or(p.polpermissive and pg_catalog.pg_get_expr(p.polqual, p.polrelid) = 'true') over (partition by p.polrelid, callers.oid) as has_open
  from callers, pg_catalog.pg_policy as p
  where p.polcmd in ('r', '*') and exists (
    select from pg_catalog.unnest(p.polroles) as role where role = 0 or pg_has_role(callers.oid, nullif(role, 0), 'usage')
  )
)
select
  c.oid,
  n.nspname as schema,
  c.relname as table,
  format('%I.%I', n.nspname, c.relname) as name,
  exists (select from callers where has_any_column_privilege(callers.oid, c.oid, 'select')) as "isReadable",
  exists (
    select from pg_catalog.pg_publication_tables as p
    where p.pubname = $3 and p.schemaname = n.nspname and p.tablename = c.relname
  ) as "isPublished",
  coalesce((
    select r.oid
    from pg_catalog.pg_publication_rel as r
    join pg_catalog.pg_publication as p on p.oid = r.prpubid
    where p.pubname = $3 and r.prrelid = c.oid
  ), c.oid) as entry,
  (
    select pg_catalog.concat_ws(' ', p.xmin, r.oid, s.oid, (
      -- Those that were not created as partitions.
      select pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat(i.inhrelid, ' ', i.xmin), ' ' order by i.inhrelid))
      from pg_catalog.pg_partition_tree(c.oid) as t
      join pg_catalog.pg_inherits as i on i.inhrelid = t.relid
      join pg_catalog.pg_attribute as a on a.attrelid = t.relid and a.attname = 'ctid'
      where t.level > 0 and i.xmin <> a.xmin
    ))
    from pg_catalog.pg_publication as p
    left join pg_catalog.pg_publication_rel as r on r.prpubid = p.oid and r.prrelid = c.oid
    left join pg_catalog.pg_publication_namespace as s on s.pnpubid = p.oid and s.pnnspid = n.oid
    where p.pubname = $3
  ) as membership,
  (
    select array(
      select name from unnest(p.attnames::text[]) as name
      -- PostgreSQL 15 lists generated columns, but no version before 18 sends them.
      where current_setting('server_version_num')::integer >= 180000 or not exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = c.oid and a.attname = name and a.attgenerated <> ''
      )
    )
    from pg_catalog.pg_publication_tables as p
    where p.pubname = $3 and p.schemaname = n.nspname and p.tablename = c.relname
  ) as "publishedColumns",
  array(
    select a.attname::text
    from pg_catalog.pg_attribute as a
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    order by a.attnum
  ) as "columns",
  array(
    select a.attname::text
    from pg_catalog.pg_attribute as a
    where a.attrelid = c.oid and a.attgenerated = 's' and not a.attisdropped
  ) as "generatedColumns",
  array(
    select a.attname::text
    from pg_catalog.pg_attribute as a
    where a.attrelid = c.oid and c.relrowsecurity and a.attnum > 0 and not a.attisdropped
      and exists (
        select from policies as p
        where p.polrelid = c.oid and has_any_column_privilege(p.caller, c.oid, 'select')
          -- Beside a permissive policy that is true, other permissive ones do not decide.
          and not (p.polpermissive and p.has_open)
          and (
            -- A reference to the whole row.
            p.polqual::text ~ ':varno 1 :varattno 0 '
            -- Postgres records the columns of USING and WITH CHECK together.
            or p.polqual::text ~ pg_catalog.format(':varno 1 :varattno %s ', a.attnum) and exists (
              select from pg_catalog.pg_depend as d
              where d.classid = 'pg_catalog.pg_policy'::regclass and d.objid = p.oid and d.refobjid = c.oid
                and d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjsubid = a.attnum
            )
          )
      )
    order by a.attnum
  ) as "policyColumns",
  pg_catalog.obj_description(c.oid, 'pg_class') as comment,
  c.relkind = 'p' and not exists (
    select from pg_catalog.pg_index as i where i.indrelid = c.oid and i.indisprimary and i.indimmediate
  ) as "isKeylessParent",
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
      'hasStoredColumn', exists (
        select from pg_catalog.pg_attribute as a
        where a.attrelid = leaf.oid and a.attgenerated = 's' and not a.attisdropped
      ),
      'oldColumns', array(
        select a.attname
        from pg_catalog.pg_attribute as a
        where a.attrelid = leaf.oid and a.attnum > 0 and not a.attisdropped
          and (leaf.relreplident = 'f' or exists (
            select from pg_catalog.pg_index as i
            where i.indrelid = leaf.oid and a.attnum = any (i.indkey)
              and case leaf.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident end
          ))
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
where n.nspname = any ($1) and c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't' ${condition}
order by n.nspname, c.relname`;

export const tablesQuery = queryOf("");
/** The same of one of them, which has the OID $4, or of which $4 is a partition. */
export const tableQuery = queryOf("and c.oid = coalesce(pg_partition_root($4::oid::regclass)::oid, $4)");

/** A publication as PublicationState. $1 is its name. */
export const publicationQuery = `
select pubname as name, pubupdate as "publishesUpdates", pubdelete as "publishesDeletes", pubviaroot as "publishesRoots",
  current_setting('server_version_num')::integer < 180000 or to_jsonb(p) ->> 'pubgencols' = 's' as "publishesGenerated"
from pg_catalog.pg_publication as p
where pubname = $1`;

/** As in `server_version_num`: 180000 for PostgreSQL 18. */
export async function serverVersion(client: Pick<ClientBase, "query">): Promise<number> {
  const { rows } = await client.query("select current_setting('server_version_num')::integer as version");
  return rows[0].version;
}

import pg from "pg";
import { acceptancesIn } from "../../../cli/migration-notes.ts";
import { type MigrationText, placeOf, statementFailure } from "../../../db/cluster/migration-failure.ts";
import { type SqlStatement, statementsOf } from "../../../db/sql-tokens.ts";
import { SERVICE_SCHEMAS } from "../existing/survey-queries.ts";

/** A statement of a migration that ran on a temporary database, and what it changed. */
export type Step = {
  readonly statement: SqlStatement;
  /** `current.sql, line 3` */
  readonly place: string;
  /** The rules that comments before the statement accept, with the reasons. */
  readonly accepted: ReadonlyMap<string, string>;
  /** Whether it ran in the transaction of the migration. */
  readonly isInTransaction: boolean;
  readonly before: Objects;
  readonly after: Objects;
  /** The oids of tables whose rows it read. */
  readonly scanned: ReadonlySet<string>;
  /** The oids of tables whose rows it wrote again, with the bits of pg_event_trigger_table_rewrite_reason(). */
  readonly rewritten: ReadonlyMap<string, number>;
  /** Tables that existed before the migration and that nothing else can use until it ends. */
  readonly locked: readonly string[];
  readonly lockTimeout: string;
};

/** What programs refer to by name. By catalog and oid: `pg_class 16384` */
export type Objects = ReadonlyMap<string, NamedObject>;
export type NamedObject = {
  readonly oid: string;
  readonly kind: "table" | "view" | "materialized view" | "function" | "type";
  readonly name: string;
  /** Where its rows are; they move if all are written again or removed. */
  readonly file: string;
  /** Columns, or labels of an enum. */
  readonly parts: readonly Part[];
  /** `kind`: c (check), f (foreign key), n (not null), p, u, x. */
  readonly constraints: readonly {
    readonly name: string;
    readonly kind: string;
    readonly isValid: boolean;
    readonly definition: string;
    /** The file of its own index. */
    readonly index: string | null;
  }[];
  readonly indexes: readonly { readonly name: string; readonly file: string; readonly definition: string }[];
};

export type Part = {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  /** Whether an insert may leave it out although it is required. */
  readonly hasDefault: boolean;
};

/** Without what extensions have, and without functions of triggers, which only PostgreSQL calls. */
const OBJECTS = `
  with ours as (
    select oid, nspname from pg_namespace where nspname <> all ('{${SERVICE_SCHEMAS}}') and nspname !~ '^(pg_|information_schema$)'
  ),
  object as (
    select 'pg_class' as catalog, c.oid, case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end as kind,
      format('%I.%I', n.nspname, c.relname) as name, c.relfilenode::text as file, (
        select json_agg(json_build_object('id', a.attnum, 'name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod),
          'isRequired', a.attnotnull, 'hasDefault', a.atthasdef or a.attidentity <> '') order by a.attnum)
        from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as parts
    from pg_class as c join ours as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f')
    union all
    select 'pg_proc', p.oid, 'function', format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), '', null
    from pg_proc as p join ours as n on n.oid = p.pronamespace
    where p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
    union all
    select 'pg_type', t.oid, 'type', format('%I.%I', n.nspname, t.typname), '', (
      select json_agg(json_build_object('id', e.oid::bigint, 'name', quote_literal(e.enumlabel)))
      from pg_enum as e where e.enumtypid = t.oid)
    from pg_type as t join ours as n on n.oid = t.typnamespace
    where t.typtype in ('e', 'd', 'r')
  )
  select json_build_object('catalog', catalog, 'oid', oid::text, 'kind', kind, 'name', name, 'file', file, 'parts', coalesce(parts, '[]'),
    'constraints', (
      select coalesce(json_agg(json_build_object('name', quote_ident(k.conname), 'kind', k.contype, 'isValid', k.convalidated,
        'definition', pg_get_constraintdef(k.oid),
        'index', case when k.contype in ('p', 'u', 'x') then pg_relation_filenode(k.conindid)::text end)), '[]')
      from pg_constraint as k
      where catalog = 'pg_class' and k.conrelid = o.oid and k.conparentid = 0),
    'indexes', (
      select coalesce(json_agg(json_build_object('name', quote_ident(x.relname), 'file', coalesce(pg_relation_filenode(x.oid), x.oid)::text,
        'definition', pg_get_indexdef(x.oid))), '[]')
      from pg_index as i join pg_class as x on x.oid = i.indexrelid
      where catalog = 'pg_class' and i.indrelid = o.oid and not x.relispartition))
  from object as o
  where not exists (
    select from pg_depend as d where d.classid = o.catalog::regclass and d.objid = o.oid and d.deptype = 'e')`;

/** A function that reads the objects, whatever the search_path of the migration is, and a trigger that notes which tables are rewritten. */
const RECORDER = `
  create function pg_temp.objects() returns setof json language sql set search_path = '' as $$ ${OBJECTS} $$;
  create function pg_temp.note_rewrite() returns event_trigger language plpgsql as $$
  begin
    perform set_config('rehearsal.rewritten', concat(nullif(current_setting('rehearsal.rewritten', true), '') || ',',
      format('"%s": %s', pg_event_trigger_table_rewrite_oid(), pg_event_trigger_table_rewrite_reason())), false);
  end $$;
  create event trigger content_rehearsal on table_rewrite execute function pg_temp.note_rewrite();`;

/**
 * Runs a migration statement by statement, and records what each one changes. PostgreSQL itself says it: its catalog, its statistics and
 * the locks of the transaction. Rejects with MigrationFailure.
 */
export async function rehearse(url: string, migration: MigrationText): Promise<readonly Step[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(RECORDER);
    const steps = await runSteps(client, migration);
    await client.query("drop event trigger content_rehearsal");
    return steps;
  } finally {
    await client.end();
  }
}

async function runSteps(client: pg.Client, migration: MigrationText): Promise<readonly Step[]> {
  const isInTransaction = !/^--! ?no-transaction/m.test(migration.text);
  const steps: Step[] = [];
  let [before, end] = [await readObjects(client), 0];
  const first = before;
  let { scans } = await observe(client);
  if (isInTransaction) await client.query("begin");
  for (const statement of statementsOf(migration.text)) {
    await client.query(statement.text).catch((error: pg.DatabaseError) => {
      throw statementFailure({ statement, error }, migration);
    });
    const [after, observed] = [await readObjects(client), await observe(client)];
    // Outside of a transaction PostgreSQL may have counted the scans already.
    const isScanned = (oid: string) => !isInTransaction || observed.scans[oid]! > (scans[oid] ?? 0);
    steps.push({
      statement,
      place: placeOf(migration.text.slice(0, statement.at), migration.file),
      accepted: new Map(acceptancesIn(migration.text.slice(end, statement.at + statement.text.length))),
      isInTransaction,
      ...{ before, after },
      scanned: new Set(Object.keys(observed.scans).filter(isScanned)),
      rewritten: new Map(Object.entries(JSON.parse(`{${observed.rewritten}}`))),
      locked: observed.locked.flatMap((oid) => first.get(`pg_class ${oid}`)?.name ?? []),
      lockTimeout: observed.lockTimeout,
    });
    [before, scans, end] = [after, observed.scans, statement.at + statement.text.length];
  }
  if (isInTransaction) await client.query("commit");
  return steps;
}

type Observed = Pick<Step, "lockTimeout"> & {
  /** How often the transaction has read all rows of each table. */
  readonly scans: Readonly<Record<string, number>>;
  /** `"16384": 4` */
  readonly rewritten: string;
  readonly locked: readonly string[];
};

const observe = async (client: pg.Client): Promise<Observed> => (await client.query<Observed>(OBSERVED)).rows[0]!;

const OBSERVED = `
  select
    (select json_object_agg(c.oid, coalesce(
       (select sum(pg_stat_get_xact_numscans(relid)) from pg_partition_tree(c.oid)), pg_stat_get_xact_numscans(c.oid)))
     from pg_class as c where c.relkind in ('r', 'p', 'm')) as scans,
    coalesce(current_setting('rehearsal.rewritten', true), '') as rewritten, set_config('rehearsal.rewritten', '', false),
    (select coalesce(json_agg(l.relation::text), '[]') from pg_locks as l
     where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.mode = 'AccessExclusiveLock') as locked,
    current_setting('lock_timeout') as "lockTimeout"`;

async function readObjects(client: pg.Client): Promise<Objects> {
  const { rows } = await client.query<{ object: NamedObject & { catalog: string } }>(
    "select pg_temp.objects() as object",
  );
  return new Map(rows.map(({ object: { catalog, ...object } }) => [`${catalog} ${object.oid}`, object]));
}

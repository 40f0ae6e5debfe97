import pg from "pg";
import { acceptancesIn } from "../../../cli/migration-notes.ts";
import { type MigrationText, placeOf, statementFailure } from "../../../db/cluster/migration-failure.ts";
import { MODULES } from "../../../db/modules/modules.ts";
import { type SqlStatement, statementsOf } from "../../../db/sql-tokens.ts";

/** A migration that ran on a temporary database, and what it changed there. */
export type Rehearsal = {
  readonly before: Objects;
  readonly after: Objects;
  readonly steps: readonly Step[];
};

/** A statement of the migration, and what it changed. */
export type Step = {
  readonly statement: SqlStatement;
  /** `current.sql, line 3` */
  readonly place: string;
  /** The rules that comments before the statement accept, with the reasons. */
  readonly accepted: ReadonlyMap<string, string>;
  /** Whether it ran in the transaction of the migration. */
  readonly isInTransaction: boolean;
  /** The objects that it created, altered or dropped. */
  readonly events: readonly DdlEvent[];
  /** The tables that existed before the migration and that it changed, before and after the statement. */
  readonly tables: readonly { readonly was: TableState; readonly is: TableState | null }[];
  /** Tables that existed before the migration and that nothing else can use until it ends. */
  readonly locked: readonly string[];
  readonly lockTimeout: string;
};

/** `name` is as in `comment on`, without the kind of object. `rewrite` is why PostgreSQL writes all rows of a table again. */
export type DdlEvent = {
  readonly kind: "changed" | "dropped" | "rewritten";
  readonly class: string;
  readonly oid: string;
  readonly part: number;
  readonly name: string;
  readonly rewrite: number;
};

export type ColumnState = {
  readonly number: number;
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  /** Whether an insert may leave it out although it is required. */
  readonly hasDefault: boolean;
};

export type TableState = {
  readonly oid: string;
  readonly name: string;
  readonly file: string;
  readonly columns: readonly ColumnState[];
  /** `kind`: c (check), f (foreign key), n (not null), p, u, x. `columns` are numbers. */
  readonly constraints: readonly {
    readonly name: string;
    readonly kind: string;
    readonly isValid: boolean;
    readonly columns: readonly number[];
    readonly definition: string;
    /** Its own index. */
    readonly index: string | null;
  }[];
  readonly indexes: readonly { readonly name: string; readonly definition: string }[];
};

/** What programs refer to by name. By class and oid: `pg_class 16384` */
export type Objects = ReadonlyMap<string, NamedObject>;
export type NamedObject = {
  readonly kind: "table" | "view" | "materialized view" | "function" | "type";
  readonly name: string;
  /** The names of columns by their numbers, or the labels of an enum by their ids. */
  readonly parts: Readonly<Record<string, string>>;
};

/**
 * Runs a migration statement by statement, and records what each one changes. PostgreSQL itself reports it: by event triggers, by its
 * catalog and by the locks that the transaction holds. Rejects with MigrationFailure.
 */
export async function rehearse(url: string, migration: MigrationText): Promise<Rehearsal> {
  const [client, observer] = [url, url].map((connectionString) => new pg.Client({ connectionString }));
  try {
    await client!.connect();
    await observer!.connect();
    await observer!.query("set search_path = ''");
    await observer!.query(RECORDER);
    const before = await readObjects(observer!);
    const steps = await runSteps(client!, migration, before);
    await observer!.query(REMOVE_RECORDER);
    return { before, after: await readObjects(observer!), steps };
  } finally {
    await client!.end();
    await observer!.end();
  }
}

const RECORDER = `
  create schema content_rehearsal;
  create table content_rehearsal.events (
    id bigint generated always as identity, kind text, class text, oid text, part int, name text, rewrite int
  );
  grant usage on schema content_rehearsal to public;
  grant select on content_rehearsal.events to public;
  create function content_rehearsal.record() returns event_trigger
  language plpgsql security definer set search_path = pg_catalog as $$
  begin
    if tg_event = 'sql_drop' then
      insert into content_rehearsal.events (kind, class, oid, part, name)
      select 'dropped', classid::regclass, objid, objsubid, object_identity from pg_event_trigger_dropped_objects();
    elsif tg_event = 'table_rewrite' then
      insert into content_rehearsal.events (kind, class, oid, part, name, rewrite)
      select 'rewritten', 'pg_class', oid, 0, oid::regclass, pg_event_trigger_table_rewrite_reason()
      from pg_event_trigger_table_rewrite_oid() as oid;
    else
      insert into content_rehearsal.events (kind, class, oid, part, name)
      select 'changed', classid::regclass, objid, objsubid,
        case classid when 'pg_proc'::regclass then
          (select format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes))
           from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace where p.oid = objid)
        else object_identity end
      from pg_event_trigger_ddl_commands() where objid is not null;
    end if;
  end $$;
  create event trigger content_rehearsal_end on ddl_command_end execute function content_rehearsal.record();
  create event trigger content_rehearsal_drop on sql_drop execute function content_rehearsal.record();
  create event trigger content_rehearsal_rewrite on table_rewrite execute function content_rehearsal.record();`;

const REMOVE_RECORDER = `
  drop event trigger content_rehearsal_end;
  drop event trigger content_rehearsal_drop;
  drop event trigger content_rehearsal_rewrite;
  drop schema content_rehearsal cascade;`;

async function runSteps(client: pg.Client, migration: MigrationText, before: Objects): Promise<readonly Step[]> {
  const isInTransaction = !/^--! ?no-transaction/m.test(migration.text);
  const statements = statementsOf(migration.text);
  const oids = [...before.keys()].flatMap((key) => /^pg_class (\d+)$/.exec(key)?.[1] ?? []);
  const known = new Map((await readTables(client, oids)).map((table) => [table.oid, table]));
  const steps: Step[] = [];
  let [last, end] = ["0", 0];
  if (isInTransaction) await client.query("begin");
  for (const statement of statements) {
    await client.query(statement.text).catch((error: pg.DatabaseError) => {
      throw statementFailure({ statement, error }, migration);
    });
    const { events, touched, locked, lockTimeout } = (await client.query<Observed>(OBSERVED, [last])).rows[0]!;
    last = events.at(-1)?.id ?? last;
    const changed = touched.filter((oid) => known.has(oid));
    const states = new Map((await readTables(client, changed)).map((table) => [table.oid, table]));
    steps.push({
      statement,
      place: placeOf(migration.text.slice(0, statement.at), migration.file),
      accepted: new Map(acceptancesIn(migration.text.slice(end, statement.at + statement.text.length))),
      isInTransaction,
      events,
      tables: changed.map((oid) => ({ was: known.get(oid)!, is: states.get(oid) ?? null })),
      locked: locked.flatMap((oid) => known.get(oid)?.name ?? []),
      lockTimeout,
    });
    for (const oid of changed) {
      const state = states.get(oid);
      if (state) known.set(oid, state);
      else known.delete(oid);
    }
    end = statement.at + statement.text.length;
  }
  if (isInTransaction) await client.query("commit");
  return steps;
}

type Observed = {
  readonly events: readonly (DdlEvent & { readonly id: string })[];
  /** Relations that the statement, or one before it, has locked against writes, and those of its events. */
  readonly touched: readonly string[];
  /** Relations that are locked against reads too. */
  readonly locked: readonly string[];
  readonly lockTimeout: string;
};

/** $1: the last event that is known. */
const OBSERVED = `
  with events as (
    select id::text, kind, class, oid, part, name, rewrite from content_rehearsal.events where id > $1::bigint
  ),
  locks as (
    select relation::text as oid, mode from pg_catalog.pg_locks
    where pid = pg_catalog.pg_backend_pid() and locktype = 'relation'
      and mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
  ),
  touched as (
    select oid from events where class = 'pg_class'
    union
    select i.indrelid::text from events as e join pg_catalog.pg_index as i on i.indexrelid::text = e.oid
    union
    select oid from locks
  )
  select
    (select coalesce(json_agg(e order by e.id::bigint), '[]') from events as e) as events,
    (select coalesce(json_agg(oid), '[]') from touched) as touched,
    (select coalesce(json_agg(oid), '[]') from locks where mode = 'AccessExclusiveLock') as locked,
    pg_catalog.current_setting('lock_timeout') as "lockTimeout"`;

const readTables = async (client: pg.Client, oids: readonly string[]): Promise<readonly TableState[]> =>
  oids.length === 0 ? [] : (await client.query<TableState>(TABLES, [oids])).rows;

const TABLES = `
  select c.oid::text, format('%I.%I', n.nspname, c.relname) as name, c.relfilenode::text as file,
    (select coalesce(json_agg(json_build_object(
       'number', a.attnum, 'name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod), 'isRequired', a.attnotnull,
       'hasDefault', a.atthasdef or a.attidentity <> '') order by a.attnum), '[]')
     from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
    (select coalesce(json_agg(json_build_object(
       'name', quote_ident(k.conname), 'kind', k.contype, 'isValid', k.convalidated, 'columns', k.conkey,
       'definition', pg_get_constraintdef(k.oid),
       'index', case when k.contype in ('p', 'u', 'x') then quote_ident(i.relname) end)), '[]')
     from pg_constraint as k left join pg_class as i on i.oid = k.conindid
     where k.conrelid = c.oid and k.conparentid = 0) as constraints,
    (select coalesce(json_agg(json_build_object(
       'name', quote_ident(x.relname), 'definition', pg_get_indexdef(x.oid))), '[]')
     from pg_index as i join pg_class as x on x.oid = i.indexrelid
     where i.indrelid = c.oid and not x.relispartition) as indexes
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
  where c.oid = any ($1::oid[]) and c.relkind in ('r', 'p', 'm')`;

async function readObjects(client: pg.Client): Promise<Objects> {
  const { rows } = await client.query<NamedObject & { class: string; oid: string }>(OBJECTS, [SERVICE_SCHEMAS]);
  return new Map(rows.map(({ class: name, oid, ...object }) => [`${name} ${oid}`, object]));
}

/** Schemas that migrations of an application do not change. */
const SERVICE_SCHEMAS = [
  ...MODULES.flatMap(({ schemas }) => schemas),
  ...["content_service", "content_rehearsal", "graphile_migrate", "graphile_worker", "information_schema"],
];

/** Triggers are called by PostgreSQL only. */
const OBJECTS = `
  with ours as (
    select oid, nspname from pg_namespace where nspname <> all ($1) and nspname !~ '^pg_'
  ),
  members as (select classid, objid from pg_depend where deptype = 'e')
  select 'pg_class' as class, c.oid::text,
    case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end as kind,
    format('%I.%I', n.nspname, c.relname) as name,
    (select coalesce(json_object_agg(a.attnum, quote_ident(a.attname)), '{}')
     from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as parts
  from pg_class as c join ours as n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f') and ('pg_class'::regclass, c.oid) not in (select * from members)
  union all
  select 'pg_proc', p.oid::text, 'function', format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), '{}'
  from pg_proc as p join ours as n on n.oid = p.pronamespace
  where p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
    and ('pg_proc'::regclass, p.oid) not in (select * from members)
  union all
  select 'pg_type', t.oid::text, 'type', format('%I.%I', n.nspname, t.typname),
    (select coalesce(json_object_agg(e.oid, quote_literal(e.enumlabel)), '{}') from pg_enum as e where e.enumtypid = t.oid)
  from pg_type as t join ours as n on n.oid = t.typnamespace
  where t.typtype in ('e', 'd', 'r') and ('pg_type'::regclass, t.oid) not in (select * from members)`;

--! Previous: sha1:5c83360a2ef9d5d92e97cf8869f45de7afc73867
--! Hash: sha1:7e51e5229ac3661dc156a85d60c7b64dacae0fdd
--! Message: truncate reaches subscribers

-- Alter the shape here, with statements that may run twice, and include the topic files that changed:
--   alter table public.articles add column if not exists subtitle text;
--   --!include content/articles/functions.sql
--! Included changes/outbox.sql
-- Where the server does not decode its write-ahead log (wal_level is not logical), triggers record changes here.
create table if not exists changes.outbox (
  id          bigint generated always as identity primary key,
  transaction xid8 not null default pg_current_xact_id(),
  recorded_at timestamptz not null default clock_timestamp(),
  relation    oid not null,
  operation   text not null,
  old_row     text,
  new_row     text
);
-- Changes are read in the order of their transactions.
create index if not exists outbox_transaction_id_idx on changes.outbox (transaction, id);
comment on table changes.outbox is $$
Committed changes for subscribers, used without logical decoding. Rows are in the text form of their row type. The
service deletes them after about a minute.
$$;
alter table changes.outbox enable row level security;
alter table changes.outbox owner to changes_owner;

create table if not exists changes.outbox_horizon (
  transaction xid8 not null
);
create unique index if not exists outbox_horizon_key on changes.outbox_horizon ((true));
comment on table changes.outbox_horizon is
  'The changes of transactions below this one have been deleted from changes.outbox.';
alter table changes.outbox_horizon enable row level security;
alter table changes.outbox_horizon owner to changes_owner;
insert into changes.outbox_horizon
select pg_snapshot_xmin(pg_current_snapshot())
where not exists (select from changes.outbox_horizon);

create or replace function changes.record_change() returns trigger
-- As changes_owner: writers have no rights on the outbox. The settings are those of logical decoding (replication.ts).
language plpgsql volatile security definer
set search_path = '' set datestyle = 'ISO' set intervalstyle = 'postgres' set timezone = 'UTC'
set extra_float_digits = 1 set bytea_output = 'hex' as $$
begin
  insert into changes.outbox (relation, operation, old_row, new_row)
  values (
    tg_relid,
    tg_op,
    case when tg_op in ('UPDATE', 'DELETE') then old::text end,
    case when tg_op in ('INSERT', 'UPDATE') then new::text end
  );
  return null;
end $$;

comment on function changes.record_change() is 'Records the changed row, or a TRUNCATE, in changes.outbox.';

create or replace function changes.use_outbox(wanted boolean) returns void
-- As its owner: the service calls it for tables that its login does not own.
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
declare
  altered record;
begin
  for altered in
    select c.oid::regclass as name, r.oid is not null and wanted as is_wanted
    from pg_class as c
    cross join lateral (
      select count(*) as count
      from pg_trigger as t
      where t.tgrelid = c.oid and t.tgname like '\_500\_outbox\_%' and t.tgparentid = 0
    ) as triggers
    left join (
      pg_publication_rel as r
      join pg_publication as p on p.oid = r.prpubid and p.pubname = 'content_changes'
    ) on r.prrelid = c.oid
    where triggers.count <> case when r.oid is not null and wanted then 3 else 0 end
  loop
    if altered.is_wanted then
      execute format('create or replace trigger _500_outbox_insert after insert or delete on %s
        for each row execute function changes.record_change()', altered.name);
      execute format('create or replace trigger _500_outbox_update after update on %s
        for each row when (old.* is distinct from new.*) execute function changes.record_change()', altered.name);
      execute format('create or replace trigger _500_outbox_truncate after truncate on %s
        for each statement execute function changes.record_change()', altered.name);
    else
      execute format('drop trigger if exists _500_outbox_insert on %s', altered.name);
      execute format('drop trigger if exists _500_outbox_update on %s', altered.name);
      execute format('drop trigger if exists _500_outbox_truncate on %s', altered.name);
    end if;
  end loop;
end $$;

comment on function changes.use_outbox(boolean) is
  'Creates or drops the triggers that record the changes of the published tables in changes.outbox.';
alter function changes.record_change() owner to changes_owner;
revoke execute on function changes.record_change(), changes.use_outbox(boolean) from public;
grant execute on function changes.use_outbox(boolean) to changes_owner;
--! EndIncluded changes/outbox.sql
--! Included changes/publication.sql
-- The tables whose changes the service sends to subscribers. It adds the other tables that callers may read, and
-- removes those that they may no longer read (db/changes/publication.ts). The old row is logged with each change, so
-- that policies decide who sees a deletion.
alter table public.articles replica identity full;
alter table public.comments replica identity full;

do $$
begin
  if not exists (select from pg_publication where pubname = 'content_changes') then
    create publication content_changes for table public.articles, public.comments;
  end if;
  alter publication content_changes
    set (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
  -- Otherwise a stored generated column in one of the tables would make its updates and deletes fail.
  if current_setting('server_version_num')::integer >= 180000 then
    alter publication content_changes set (publish_generated_columns = 'stored');
  end if;
end $$;

-- The service calls these functions. As their owner: its login owns no tables. They give up soon when a table is
-- locked, because everything that needs the table would wait behind them.
create or replace function changes.set_identity(relation regclass, identity text) returns void
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
begin
  execute format('alter table %s replica identity %s', relation, case identity when 'f' then 'full' else 'default' end);
end $$;

comment on function changes.set_identity(regclass, text) is
  'Sets what is logged of the old row with each change: f for the whole row, d for the primary key.';

create or replace function changes.publish_table(relation regclass) returns void
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
begin
  -- Services start at the same time.
  perform pg_advisory_xact_lock(hashtext('content-service:publication'));
  if exists (
    select from pg_publication_rel as r
    join pg_publication as p on p.oid = r.prpubid
    where p.pubname = 'content_changes' and r.prrelid = relation
  ) then return; end if;
  execute format('alter publication content_changes add table %s', relation);
end $$;

comment on function changes.publish_table(regclass) is 'Adds the table to the publication of the service.';

create or replace function changes.unpublish_table(relation regclass) returns void
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
begin
  perform pg_advisory_xact_lock(hashtext('content-service:publication'));
  if exists (
    select from pg_publication_rel as r
    join pg_publication as p on p.oid = r.prpubid
    where p.pubname = 'content_changes' and r.prrelid = relation
  ) then
    execute format('alter publication content_changes drop table %s', relation);
  end if;
end $$;

comment on function changes.unpublish_table(regclass) is 'Removes the table from the publication of the service.';

revoke execute on function
  changes.set_identity(regclass, text),
  changes.publish_table(regclass),
  changes.unpublish_table(regclass)
  from public;
grant execute on function
  changes.set_identity(regclass, text),
  changes.publish_table(regclass),
  changes.unpublish_table(regclass)
  to changes_owner;

create or replace function changes.protect_writes() returns event_trigger
-- It runs as its owner: the owner of an altered table need not own the publication.
language plpgsql volatile security definer set search_path = '' as $$
declare
  altered record;
begin
  for altered in
    with recursive relations (oid, root) as (
      select c.objid, coalesce(pg_partition_root(c.objid), c.objid)
      from pg_event_trigger_ddl_commands() as c
      where c.classid = 'pg_class'::regclass
      union
      select i.inhrelid, coalesce(pg_partition_root(i.inhrelid), i.inhrelid)
      from relations as r
      join pg_inherits as i on i.inhparent = r.oid
    )
    select
      c.oid::regclass as name,
      r.root::regclass as published,
      c.relreplident = 'f' as is_full,
      exists (
        select from pg_index as i
        where i.indrelid = c.oid and i.indisprimary and i.indimmediate and i.indisvalid
      ) as has_key,
      exists (
        select from pg_attribute as a
        where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped
      ) as has_virtual_column
    from relations as r
    join pg_class as c on c.oid = r.oid
    join pg_publication_rel as pr on pr.prrelid = r.root
    join pg_publication as p on p.oid = pr.prpubid
    where c.relkind = 'r' and c.relreplident in ('d', 'f') and p.pubname = 'content_changes'
  loop
    -- The choice of db/changes/publication.ts, for what would fail now.
    if altered.is_full and altered.has_virtual_column and altered.has_key then
      execute format('alter table %s replica identity default', altered.name);
    elsif not altered.is_full and not altered.has_key and not altered.has_virtual_column then
      execute format('alter table %s replica identity full', altered.name);
    elsif altered.has_virtual_column and not altered.has_key then
      execute format('alter publication content_changes drop table %s', altered.published);
      raise warning 'subscribers no longer receive the changes of %', altered.published using
        detail = 'It has a virtual generated column and no primary key, so that its updates and deletes would fail.';
    end if;
  end loop;
end $$;

comment on function changes.protect_writes() is
  'Keeps updates and deletes of published tables possible when DDL changes their columns or primary keys.';

-- Only a superuser may create event triggers. For other owners, the service does the same a moment later.
do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    drop event trigger if exists protect_published_writes;
    create event trigger protect_published_writes on ddl_command_end
      when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'ALTER TABLE')
      execute function changes.protect_writes();
  end if;
end $$;
--! EndIncluded changes/publication.sql

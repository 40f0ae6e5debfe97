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

-- Where the server does not decode its write-ahead log (wal_level is not logical), triggers record changes here.
create table if not exists changes.outbox (
  id           bigint generated always as identity primary key,
  transaction  xid8 not null default pg_current_xact_id(),
  table_schema text not null,
  table_name   text not null,
  operation    text not null,
  changed      jsonb not null
);
-- Changes are read in the order of their transactions.
create index if not exists outbox_transaction_id_idx on changes.outbox (transaction, id);
comment on table changes.outbox is
  'Committed changes for subscribers, used without logical decoding. The service deletes them after about a minute.';
alter table changes.outbox enable row level security;
alter table changes.outbox owner to changes_owner;

create or replace function changes.record_change() returns trigger
-- As changes_owner: writers have no rights on the outbox.
language plpgsql volatile security definer set search_path = '' as $$
begin
  insert into changes.outbox (table_schema, table_name, operation, changed)
  values (tg_table_schema, tg_table_name, tg_op, case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end);
  return null;
end $$;

comment on function changes.record_change() is 'Records the changed row in changes.outbox.';

create or replace function changes.use_outbox(wanted boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare
  published record;
begin
  for published in
    select p.prrelid::regclass as name,
      exists (
        select from pg_trigger as t
        where t.tgrelid = p.prrelid
          and t.tgname = '_500_outbox_insert'
      ) as is_recorded
    from pg_publication_rel as p
    join pg_publication as publication on publication.oid = p.prpubid
    where publication.pubname = 'content_changes'
  loop
    continue when published.is_recorded = wanted;
    if wanted then
      execute format('create trigger _500_outbox_insert after insert or delete on %s
        for each row execute function changes.record_change()', published.name);
      execute format('create trigger _500_outbox_update after update on %s
        for each row when (old.* is distinct from new.*) execute function changes.record_change()', published.name);
    else
      execute format('drop trigger _500_outbox_insert on %s', published.name);
      execute format('drop trigger _500_outbox_update on %s', published.name);
    end if;
  end loop;
end $$;

comment on function changes.use_outbox(boolean) is
  'Creates or drops the triggers that record the changes of the published tables in changes.outbox.';
alter function changes.record_change() owner to changes_owner;
revoke execute on function changes.record_change(), changes.use_outbox(boolean) from public;

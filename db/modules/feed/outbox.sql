-- Where the server does not decode its write-ahead log, triggers record changes in changes.outbox.
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

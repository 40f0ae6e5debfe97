-- The tables whose changes the service sends to subscribers. It adds the tables that callers may read, and removes
-- those that they may no longer read (db/changes/publication.ts).
do $$
begin
  if not exists (select from pg_publication where pubname = 'content_changes') then
    create publication content_changes;
  end if;
  -- Not if it has these options already: an altered publication is a gap for all subscribers.
  if exists (
    select from pg_publication
    where pubname = 'content_changes' and not (pubinsert and pubupdate and pubdelete and pubtruncate and pubviaroot)
  ) then
    alter publication content_changes
      set (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
  end if;
  -- Otherwise a stored generated column in one of the tables would make its updates and deletes fail.
  if exists (
    select from pg_publication as p where pubname = 'content_changes' and to_jsonb(p) ->> 'pubgencols' <> 's'
  ) then
    alter publication content_changes set (publish_generated_columns = 'stored');
  end if;
end $$;

-- The service calls these functions. As their owner: its login owns no tables. They give up soon when a table is
-- locked, because everything that needs the table would wait behind them.
create or replace function changes.set_identity(relation regclass, identity text) returns void
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
begin
  perform pg_advisory_xact_lock(hashtext('content-service:publication'));
  if exists (select from pg_class as c where c.oid = relation and c.relreplident::text = identity) then return; end if;
  -- Every process that hears of a new table calls this: an announcement would make all of them read the schema again.
  perform set_config('changes.is_silent', 'on', true);
  execute format('alter table %s replica identity %s', relation, case identity when 'f' then 'full' else 'default' end);
  perform set_config('changes.is_silent', 'off', true);
end $$;

comment on function changes.set_identity(regclass, text) is
  'Sets what is logged of the old row with each change: f for the whole row, d for the primary key.';

create or replace function changes.publish_table(relation regclass, is_published boolean default true) returns void
language plpgsql volatile security definer set search_path = '' set lock_timeout = '200ms' as $$
begin
  -- Services start at the same time.
  perform pg_advisory_xact_lock(hashtext('content-service:publication'));
  if is_published = exists (
    select from pg_publication_rel as r
    join pg_publication as p on p.oid = r.prpubid
    where p.pubname = 'content_changes' and r.prrelid = relation
  ) then return; end if;
  perform set_config('changes.is_silent', 'on', true);
  execute format(
    'alter publication content_changes %s table only %s', case when is_published then 'add' else 'drop' end, relation
  );
  perform set_config('changes.is_silent', 'off', true);
end $$;

comment on function changes.publish_table(regclass, boolean) is
  'Adds the table to the publication of the service, or removes it.';

revoke execute on function changes.set_identity(regclass, text), changes.publish_table(regclass, boolean) from public;
grant execute on function changes.set_identity(regclass, text), changes.publish_table(regclass, boolean)
  to changes_owner;

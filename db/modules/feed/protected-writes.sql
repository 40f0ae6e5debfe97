-- Updates and deletes of a published table fail without a replica identity, and are missed if their old rows are not
-- logged. So after each DDL statement on such a table this trigger sets one, or unpublishes the table.
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
    -- The rules of db/changes/publication-plan.ts.
    if altered.is_full and altered.has_virtual_column and altered.has_key then
      execute format('alter table %s replica identity default', altered.name);
    elsif not altered.is_full and not altered.has_virtual_column then
      execute format('alter table %s replica identity full', altered.name);
    elsif altered.has_virtual_column and not altered.has_key then
      execute format('alter publication content_changes drop table only %s', altered.published);
      raise warning 'subscribers no longer receive the changes of %', altered.published using
        detail = 'It has a virtual generated column and no primary key, so that its updates and deletes would fail.';
    end if;
  end loop;
end $$;

comment on function changes.protect_writes() is
  'Keeps updates and deletes of published tables possible when DDL changes their columns or primary keys.';

revoke all on function changes.protect_writes() from public;

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

-- The roles of requests. Roles belong to the whole server, so each is created only when it is missing.
-- The login roles that may become these are created at start, with their passwords (db/cluster/provision.ts).
do $$
declare
  name text;
  needed_right text;
begin
  foreach name in array array[
    'anon', 'authenticated', 'admin', 'service_role', 'auth_owner', 'tasks_owner', 'changes_owner'
  ] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
      -- By this, the removal of the module tells it from the roles of a DBA (db/cluster/module-removal.ts).
      execute format('comment on role %I is %L', name, 'Made by Content Service.');
    end if;
  end loop;

  -- An administrator may do what every signed-in caller may.
  if not pg_has_role('admin', 'authenticated', 'member') then
    grant authenticated to admin;
  end if;

  if not (select rolbypassrls from pg_roles where rolname = 'service_role') then
    begin
      alter role service_role bypassrls;
    exception when insufficient_privilege then
      -- A managed server keeps this right for itself: the service then refuses the service key.
      null;
    end;
  end if;

  -- Since PostgreSQL 16 the creator of a role is a member of it, but may act as it only after a grant.
  needed_right := case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end;
  -- The migrating role gives the tables of authentication, tasks and changes to these owners.
  foreach name in array array['auth_owner', 'tasks_owner', 'changes_owner'] loop
    if not pg_has_role(name, needed_right) then
      execute format('grant %I to %I', name, current_user);
    end if;
  end loop;
end $$;

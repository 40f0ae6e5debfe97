-- Tables and functions of authentication belong to auth_owner, which is not a superuser: functions run with its rights.
-- Tables have no grants and no policies: even a mistaken grant would show no rows. PUBLIC may not execute functions.
do $$
declare
  private regclass;
  function regprocedure;
begin
  for private in
    select c.oid
    from pg_class as c
    where c.relnamespace = 'auth_private'::regnamespace
      and c.relkind = 'r'
      and not (c.relrowsecurity and c.relowner = 'auth_owner'::regrole)
  loop
    execute format('alter table %s owner to auth_owner', private);
    execute format('alter table %s enable row level security', private);
  end loop;
  for function in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('auth_api'::regnamespace, 'auth_private'::regnamespace)
  loop
    execute format('alter function %s owner to auth_owner', function);
    execute format('revoke all on function %s from public', function);
  end loop;
end $$;

-- has_recent_sign_in calls it.
grant execute on function auth_api.setting(text) to anon, authenticated, service_role;

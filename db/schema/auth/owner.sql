-- Functions of authentication belong to auth_owner, which is not a superuser: they run with its rights.
-- PUBLIC may not execute them.
do $$
declare function regprocedure;
begin
  for function in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('auth_api'::regnamespace, 'auth_private'::regnamespace)
  loop
    execute format('alter function %s owner to auth_owner', function);
    execute format('revoke all on function %s from public', function);
  end loop;
end $$;

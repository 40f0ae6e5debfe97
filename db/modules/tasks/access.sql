grant usage on schema tasks to anon, authenticated, service_role;

do $$
declare signature regprocedure;
begin
  for signature in select oid::regprocedure from pg_proc where pronamespace = 'tasks'::regnamespace loop
    execute format('alter function %s owner to tasks_owner', signature);
    execute format('revoke all on function %s from public', signature);
  end loop;
end $$;

grant execute on function
  tasks.accept(text, json, integer, text, integer, bigint, bigint),
  tasks.find(uuid),
  tasks.list(text, integer, bigint),
  tasks.cancel(uuid),
  tasks.keep_result(uuid, json),
  tasks.finish(uuid, integer)
  to anon, authenticated, service_role;
grant execute on function tasks.run(text, json) to service_role;

-- Authentication adds e-mails.
grant usage on schema tasks to auth_owner;
grant execute on function tasks.add_mail(uuid) to auth_owner;

-- With USERS_WRITE=open, the role of callers who change and delete users without credentials.
do $$
begin
  if not exists (select from pg_roles where rolname = 'users_editor') then
    create role users_editor nologin;
  end if;
end $$;

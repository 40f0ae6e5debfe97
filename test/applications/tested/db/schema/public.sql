revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, service_role;

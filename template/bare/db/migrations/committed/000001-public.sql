--! Previous: -
--! Hash: sha1:9202d6f4f6d6c5516f7ed8c716cb50f94ff24cb0
--! Message: public

--! Included schema.sql
-- The database of the application, in order of creation. Migrations include the same files.
--! Included public.sql
-- public is the API: what is granted here is served. By default, PUBLIC has no rights in it.
revoke all on schema public from public;
alter default privileges revoke execute on functions from public;
grant usage on schema public to anon, authenticated, service_role;
--! EndIncluded public.sql
--! EndIncluded schema.sql

-- For policies and other functions.
grant usage on schema auth to anon, authenticated, service_role, auth_owner;

create or replace function auth.claims() returns jsonb
language sql stable parallel safe
-- On a reused connection an unset setting reads as '', not as null.
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;

comment on function auth.claims() is 'The verified claims of the caller''s token; {} for anonymous callers.';

-- It returns the type of the domain, so that policies compare it with columns of this type. Tokens of other issuers
-- have other subjects, which identify no user here. Defaults call it for each row: one cast to json takes a third of
-- the time of two calls of auth.claims().
do $do$
declare
  base constant text := (
    select format_type(t.typbasetype, null) from pg_type as t where t.oid = 'auth.user_id'::regtype);
  pattern constant text := case base
    when 'uuid' then '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
    when 'bigint' then '^[0-9]{1,18}$'
    when 'integer' then '^[0-9]{1,9}$'
    else '^.{1,200}$'
  end;
begin
  execute format(
    $function$
      create or replace function auth.uid() returns %1$s
      language sql stable parallel safe
      return pg_catalog.regexp_substr(
        nullif(pg_catalog.current_setting('request.jwt.claims', true), '')::json ->> 'sub', %2$L)::%1$s
    $function$,
    base,
    pattern);
end $do$;

comment on function auth.uid() is 'The id of the signed-in user; null for anonymous callers.';

create or replace function auth.is_admin() returns boolean
language sql stable parallel safe
return pg_catalog.pg_has_role(current_user, 'admin', 'member');

comment on function auth.is_admin() is 'Whether the caller''s role is admin.';

-- The names that policies of Supabase use.
create or replace function auth.jwt() returns jsonb
language sql stable parallel safe
return auth.claims();

comment on function auth.jwt() is 'As auth.claims().';

create or replace function auth.role() returns text
language sql stable parallel safe
return coalesce(auth.claims() ->> 'role', nullif(pg_catalog.current_setting('role', true), 'none'));

comment on function auth.role() is 'The role of the caller: anon, authenticated, service_role or another one.';

create or replace function auth.email() returns text
language sql stable parallel safe
return auth.claims() ->> 'email';

comment on function auth.email() is 'The e-mail in the verified claims of the caller; null if they have none.';

revoke all on function auth.claims(), auth.uid(), auth.is_admin(), auth.jwt(), auth.role(), auth.email() from public;
grant execute on function auth.claims(), auth.uid(), auth.is_admin(), auth.jwt(), auth.role(), auth.email()
to anon, authenticated, service_role, auth_owner;

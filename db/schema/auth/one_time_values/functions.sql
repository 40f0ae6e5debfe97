-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.keep_once(kind text, key bytea, data jsonb, expires_at timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with kept as (
    insert into auth_private.one_time_values (kind, key, data, expires_at)
    values (keep_once.kind, keep_once.key, keep_once.data, keep_once.expires_at)
    on conflict do nothing
    returning true
  )
  select exists (select from kept)
$$;

comment on function auth_api.keep_once(text, bytea, jsonb, timestamptz) is $$
Keeps a value until it is taken or expires; false if the key is already kept. A value that nothing takes, such as the id
of a SAML assertion, was used before if this returns false.
$$;

create or replace function auth_api.take_once(kind text, key bytea, now timestamptz) returns jsonb
language sql volatile security definer set search_path = '' as $$
  with taken as (
    delete from auth_private.one_time_values as v
    where v.kind = take_once.kind
      and v.key = take_once.key
    returning v.data, v.expires_at
  )
  select t.data
  from taken as t
  where t.expires_at > take_once.now
$$;

comment on function auth_api.take_once(text, bytea, timestamptz) is
  'Returns a value and deletes it; null if there is none or it has expired.';

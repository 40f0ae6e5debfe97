create or replace function auth_private.announce_providers() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform pg_notify('accounts', '{"providers": true}');
  return null;
end $$;

comment on function auth_private.announce_providers() is 'Notifies the channel "accounts" that providers have changed.';

create or replace trigger _500_announce after insert or update or delete on auth_private.providers
  for each statement execute function auth_private.announce_providers();

-- security definer: the login role of the service may call this function but not read the table.
create or replace function auth_api.list_providers() returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(json_build_object('name', p.name, 'definition', p.definition) order by p.name), '[]')
  from auth_private.providers as p
$$;

comment on function auth_api.list_providers() is 'The providers of the table: [{name, definition}].';

alter table public.security_events enable row level security;

grant select on public.security_events to service_role;
grant insert (event, user_id, address, detail, at), select, delete on public.security_events to auth_owner;

drop policy if exists "authentication records events and deletes old ones" on public.security_events;
create policy "authentication records events and deletes old ones" on public.security_events to auth_owner
  using (true)
  with check (true);

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.note_event(
  event text, user_id bigint, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) is 'Records a security event.';

create or replace function auth_api.note_login(
  user_id bigint, epoch integer, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  select auth_api.note_event('login', a.user_id, note_login.address, note_login.detail, note_login.now)
  from auth_private.accounts as a
  where a.user_id = note_login.user_id
    and a.epoch = note_login.epoch
    and a.disabled_at is null
$$;

comment on function auth_api.note_login(bigint, integer, inet, jsonb, timestamptz) is $$
Records a login that was issued a token or a session, unless the account has changed since it was found. `detail` is
{by, provider}.
$$;

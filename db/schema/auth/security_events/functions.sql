-- security definer: the gateway's login may call this function and see no table.
create or replace function auth_api.note_event(event text, user_id bigint, address inet, detail jsonb, now timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  insert into public.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) is 'Notes a security event.';

alter function auth_api.note_event(text, bigint, inet, jsonb, timestamptz) owner to auth_owner;
revoke all on all functions in schema auth_api from public;

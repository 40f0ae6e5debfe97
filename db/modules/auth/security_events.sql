create or replace function auth_private.operator_for(user_id auth.user_id) returns text
language sql stable set search_path = '' as $$
  select case
    -- An operator who acts as a caller.
    when current_setting('request.operator', true) <> '' then current_setting('request.operator', true)
    when auth.claims() = '{}' then 'login ' || session_user
    -- "none" is the service, which has verified that the user acts.
    when auth.claims() ->> 'role' = 'none' or auth.uid() = operator_for.user_id then null
    else coalesce('user ' || auth.uid(), 'role ' || (auth.claims() ->> 'role'))
  end
$$;

comment on function auth_private.operator_for(auth.user_id) is
  'Who acts in this transaction, if it is not this user: "user 3", "role service_role" or "login content".';

create or replace function auth_private.note_operator() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  new.operator := auth_private.operator_for(new.user_id);
  return new;
end $$;

comment on function auth_private.note_operator() is 'Adds to a security event who acted, if it was not the user.';

create or replace trigger _100_operator before insert on auth_private.security_events
  for each row execute function auth_private.note_operator();

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.note_event(
  event text, user_id auth.user_id, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.security_events (event, user_id, address, detail, at)
  values (note_event.event, note_event.user_id, note_event.address, coalesce(note_event.detail, '{}'), note_event.now)
$$;

comment on function auth_api.note_event(text, auth.user_id, inet, jsonb, timestamptz) is 'Records a security event.';

create or replace function auth_api.note_login(
  user_id auth.user_id, epoch integer, address inet, detail jsonb, now timestamptz)
returns void
language sql volatile security definer set search_path = '' as $$
  select auth_api.note_event('login', a.user_id, note_login.address, note_login.detail, note_login.now)
  from auth_private.accounts as a
  where a.user_id = note_login.user_id
    and a.epoch = note_login.epoch
    and a.disabled_at is null
$$;

comment on function auth_api.note_login(auth.user_id, integer, inet, jsonb, timestamptz) is $$
Records a login that was issued a token or a session, unless the account has changed since it was found. `detail` is
{by, provider, passkey}.
$$;

create or replace function auth_api.list_events(filters jsonb, total integer) returns json
language plpgsql stable security definer set search_path = '' as $$
declare
  wanted_user auth.user_id;
  events json;
begin
  begin
    wanted_user := filters ->> 'user';
  exception when data_exception then
    return '[]';
  end;
  select coalesce(json_agg(json_build_object(
      'id', e.id,
      'at', e.at,
      'event', e.event,
      'userId', e.user_id,
      'address', host(e.address),
      'detail', e.detail,
      'operator', e.operator) order by e.id desc), '[]')
  into events
  from (
    select s.*
    from auth_private.security_events as s
    where (filters ->> 'event' is null or s.event = filters ->> 'event')
      and (wanted_user is null or s.user_id = wanted_user)
      and (filters ->> 'operator' is null or s.operator = filters ->> 'operator')
      and (filters ->> 'from' is null or s.at >= (filters ->> 'from')::timestamptz)
      and (filters ->> 'to' is null or s.at < (filters ->> 'to')::timestamptz)
      and (filters ->> 'before' is null or s.id < (filters ->> 'before')::bigint)
    order by s.id desc
    limit total
  ) as e;
  return events;
end $$;

comment on function auth_api.list_events(jsonb, integer) is
  'Security events, newest first, of a filter {event, user, operator, from, to, before}, each of which may be null.';

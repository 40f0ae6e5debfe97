-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  taken integer;
  ids bigint[];
begin
  -- Before anything is compared, and one after the other for each key: however many come at once, no more are let through.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    select count(*), min(a.at) into taken, oldest
    from (
      select a.at from auth_private.attempts as a
      where a.key = keys[place] and a.at > reserve_attempt.now - span
      order by a.at desc limit limits[place]
    ) as a;
    if taken >= limits[place] then
      return json_build_object('retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer);
    end if;
  end loop;
  with reserved as (
    insert into auth_private.attempts (key, at) select key, reserve_attempt.now from unnest(keys) as key returning id
  )
  select array_agg(id) into ids from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is
  'Counts an attempt for each key before it is made: {ids}, or {retryAfter} in seconds when one of the keys has as many as its limit within `span`.';

-- security definer: see above.
create or replace function auth_api.forgive_attempt(ids bigint[]) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.id = any (ids)
$$;

comment on function auth_api.forgive_attempt(bigint[]) is 'Takes back attempts that have not failed.';

-- security definer: see above.
create or replace function auth_api.purge(now timestamptz, attempt_span interval, event_retention interval) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.at < purge.now - attempt_span;
  delete from auth_private.refresh_tokens as t where t.expires_at < purge.now - interval '1 day';
  delete from auth_private.token_families as f
  where f.started_at < purge.now - interval '1 day'
    and not exists (select from auth_private.refresh_tokens as t where t.family_id = f.id);
  delete from auth_private.sessions as s where s.expires_at < purge.now;
  delete from auth_private.api_keys as k where least(k.revoked_at, k.expires_at) < purge.now - interval '30 days';
  delete from public.security_events as e where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval) is 'Forgets what nobody needs any more: old attempts, tokens, sessions, keys and security events.';

alter function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) owner to auth_owner;
alter function auth_api.forgive_attempt(bigint[]) owner to auth_owner;
alter function auth_api.purge(timestamptz, interval, interval) owner to auth_owner;
revoke all on all functions in schema auth_api from public;

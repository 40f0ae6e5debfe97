-- security definer: the gateway's login may call these functions and see no table.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  undecided integer;
  taken integer;
  is_full boolean := false;
  ids bigint[];
begin
  -- Before anything is compared, and one after the other for each key: however many come at once, no more are let through.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    -- What is not decided is counted before what counts: what is decided in between stands in both counts, not in neither.
    -- After a minute it never will be: its process has ended, and has told nobody how it went.
    select count(*) into undecided from auth_private.attempts as a
    where a.key = keys[place] and a.at > reserve_attempt.now - interval '1 minute' and not a.counts;
    select count(*), min(a.at) into taken, oldest
    from (
      select a.at from auth_private.attempts as a
      where a.key = keys[place] and a.at > reserve_attempt.now - span and a.counts
      order by a.at desc limit limits[place]
    ) as a;
    if taken >= limits[place] then
      return json_build_object('retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer);
    end if;
    is_full := is_full or taken + undecided >= limits[place];
  end loop;
  if is_full then return null; end if;
  with reserved as (
    insert into auth_private.attempts (key, at) select key, reserve_attempt.now from unnest(keys) as key returning id
  )
  select array_agg(id) into ids from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is
  'Takes a place among the attempts of each key before it is made: {ids}, or {retryAfter} in seconds when as many as the limit of one of the keys count within `span`. Null while others that are not decided yet have the last places.';

-- security definer: see above.
create or replace function auth_api.count_attempt(ids bigint[]) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.attempts as a set counts = true where a.id = any (ids)
$$;

comment on function auth_api.count_attempt(bigint[]) is 'Decides that attempts count.';

-- security definer: see above.
create or replace function auth_api.forgive_attempt(ids bigint[]) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.id = any (ids)
$$;

comment on function auth_api.forgive_attempt(bigint[]) is 'Decides that attempts do not count.';

-- security definer: see above.
create or replace function auth_api.forget_attempts(key bytea) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.key = forget_attempts.key
$$;

comment on function auth_api.forget_attempts(bytea) is 'Takes back all attempts of a key.';

-- security definer: see above.
create or replace function auth_api.purge(now timestamptz, attempt_span interval, event_retention interval) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.attempts as a where a.at < purge.now - attempt_span;
  delete from auth_private.refresh_tokens as t where t.expires_at < purge.now - interval '1 day';
  delete from auth_private.token_families as f
  where f.started_at < purge.now - interval '1 day'
    and not exists (select from auth_private.refresh_tokens as t where t.family_id = f.id);
  delete from auth_private.spent_challenges as c where c.spent_at < purge.now - interval '1 day';
  delete from auth_private.sessions as s where s.expires_at < purge.now;
  delete from auth_private.api_keys as k where least(k.revoked_at, k.expires_at) < purge.now - interval '30 days';
  delete from public.security_events as e where e.at < purge.now - event_retention;
$$;

comment on function auth_api.purge(timestamptz, interval, interval) is 'Forgets what nobody needs any more: old attempts, tokens, sessions, keys and security events.';

alter function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) owner to auth_owner;
alter function auth_api.count_attempt(bigint[]) owner to auth_owner;
alter function auth_api.forgive_attempt(bigint[]) owner to auth_owner;
alter function auth_api.forget_attempts(bytea) owner to auth_owner;
alter function auth_api.purge(timestamptz, interval, interval) owner to auth_owner;
revoke all on all functions in schema auth_api from public;

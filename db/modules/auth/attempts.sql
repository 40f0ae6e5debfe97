-- The key that an attempt counts for, as SHA-256: names and networks are not stored.
create or replace function auth_private.attempt_key(variadic parts text[]) returns bytea
language sql stable set search_path = ''
return sha256(convert_to(array_to_json(parts)::text, 'UTF8'));

comment on function auth_private.attempt_key(text[]) is
  'The key of an attempt: attempt_key(''user'', ''1'', ''203.0.113.7'').';

create or replace function auth_private.attempt_keys(kind text, networks text[]) returns bytea[]
language sql stable set search_path = ''
return array(
  select auth_private.attempt_key(kind, network)
  from unnest(networks) with ordinality as n (network, place)
  order by place);

comment on function auth_private.attempt_keys(text, text[]) is
  'The keys of an attempt in the network of a client, and in its site if it has one.';

-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.reserve_attempt(keys bytea[], limits integer[], now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  place integer;
  oldest timestamptz;
  undecided integer;
  taken integer;
  is_full boolean := false;
  ids bigint[];
begin
  -- Reservations for one key wait for each other, so that parallel attempts can't exceed the limit.
  for place in select i from generate_subscripts(keys, 1) as i order by keys[i] loop
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(keys[place], 'hex'), 0));
  end loop;
  for place in select i from generate_subscripts(keys, 1) as i loop
    -- Undecided attempts are counted first: one that is decided in between is counted twice rather than not at all.
    -- An attempt that is undecided for a minute is ignored: its process has ended.
    select count(*)
    into undecided
    from auth_private.attempts as a
    where a.key = keys[place]
      and a.at > reserve_attempt.now - interval '1 minute'
      and not a.counts;

    select count(*), min(a.at)
    into taken, oldest
    from (
      select a.at
      from auth_private.attempts as a
      where a.key = keys[place]
        and a.at > reserve_attempt.now - span
        and a.counts
      order by a.at desc
      limit limits[place]
    ) as a;

    if taken >= limits[place] then
      return json_build_object(
        'retryAfter', greatest(1, ceil(extract(epoch from oldest + span - reserve_attempt.now)))::integer,
        'place', place);
    end if;
    is_full := is_full or taken + undecided >= limits[place];
  end loop;
  if is_full then return null; end if;

  with reserved as (
    insert into auth_private.attempts (key, at)
    select key, reserve_attempt.now
    from unnest(keys) as key
    returning id
  )
  select array_agg(id)
  into ids
  from reserved;
  return json_build_object('ids', ids);
end $$;

comment on function auth_api.reserve_attempt(bytea[], integer[], timestamptz, interval) is $$
Reserves an attempt for each key before it is made: {ids}, or {retryAfter, place} when the limit of the key at this
place is reached within `span`, with the seconds to wait. Null while undecided attempts hold the last places.
$$;

create or replace function auth_private.decoy_hash(login text) returns text
language sql stable set search_path = '' as $$
  select chosen.password_hash
  from (
    (
      select a.password_hash, 1 as turn
      from auth_private.accounts as a
      where not a.is_anonymous
        and hashtextextended(a.public_id::text, 0) >= hashtextextended(auth_private.login_key(login), 0)
      order by hashtextextended(a.public_id::text, 0)
      limit 1
    )
    union all
    (
      select a.password_hash, 2
      from auth_private.accounts as a
      where not a.is_anonymous
      order by hashtextextended(a.public_id::text, 0)
      limit 1
    )
  ) as chosen
  order by chosen.turn
  limit 1
$$;

comment on function auth_private.decoy_hash(text) is $$
The hash of some account, always the same one for a login: an unknown login costs as much as that account. So it does
not show that the hashes of imported accounts cost more, or less, than those of the service.
$$;

create or replace function auth_private.note_throttled(
  user_id auth.user_id, address inet, reached jsonb, now timestamptz, span interval)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  update auth_private.security_events as e
  set detail = e.detail || jsonb_build_object('count', (e.detail ->> 'count')::integer + 1)
  where e.event = 'login_throttled'
    and e.at > note_throttled.now - span
    and e.user_id is not distinct from note_throttled.user_id
    and e.detail @> reached;
  if found then return; end if;
  perform auth_api.note_event(
    'login_throttled', note_throttled.user_id, note_throttled.address, reached || '{"count": 1}', note_throttled.now);
end $$;

comment on function auth_private.note_throttled(auth.user_id, inet, jsonb, timestamptz, interval) is $$
Records that a login was refused, once for a limit and a window: `reached` is {limit, network}, and the event counts the
others. The caller holds the lock of the limit.
$$;

create or replace function auth_api.begin_login(
  login text, user_id auth.user_id, address text, networks text[], attempts integer[], attempts_per_address integer[],
  now timestamptz, span interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  account json := case
    when begin_login.user_id is null then auth_api.find_account(login)
    else auth_api.account_of(begin_login.user_id)
  end;
  found_id constant auth.user_id := coalesce(begin_login.user_id, (account ->> 'id')::auth.user_id);
  reservation json;
  reached integer;
begin
  if (account ->> 'isDisabled')::boolean then
    perform auth_private.lift_bans(found_id, begin_login.now);
    account := auth_api.account_of(found_id);
  end if;
  reservation := auth_api.reserve_attempt(
    array(
      -- With the network, so that attempts from one network cannot lock out the user in another one.
      select case
        -- Spellings that find_account takes for one account count together for an unknown login too.
        when found_id is null then auth_private.attempt_key(
          'name', auth_private.login_key(login), network)
        else auth_private.attempt_key('user', found_id::text, network)
      end
      from unnest(networks) with ordinality as n (network, place)
      order by place
    ) || auth_private.attempt_keys('address', networks),
    attempts || attempts_per_address,
    begin_login.now,
    span);
  if reservation ->> 'retryAfter' is not null then
    reached := reservation ->> 'place';
    -- The limit of a network is reached by logins to many accounts.
    perform auth_private.note_throttled(
      case when reached <= cardinality(networks) then found_id end,
      nullif(address, '')::inet,
      jsonb_build_object(
        'limit', case
          when reached <= cardinality(networks) then 'LOGIN_ATTEMPTS'
          else 'address_logins'
        end,
        'network', networks[1 + (reached - 1) % cardinality(networks)]),
      begin_login.now,
      span);
  end if;

  return json_build_object(
    'account', account,
    'factors', auth_private.factor_secrets(found_id),
    'decoy', case when account is null then auth_private.decoy_hash(login) end,
    'attempt', reservation);
end $$;

comment on function
  auth_api.begin_login(text, auth.user_id, text, text[], integer[], integer[], timestamptz, interval) is $$
Finds the account of a login, or of a user, and reserves an attempt for it in these networks: {account, factors, decoy,
attempt}, where `factors` are the encrypted secrets in hex, `decoy` is the hash that an unknown login is verified with,
and `attempt` is as reserve_attempt returns it. There is a limit for each network: for attempts at this account, and at
all accounts. An unknown login costs the same statements as a known one.
$$;

create or replace function auth_api.reserve_code(user_id auth.user_id, attempts integer, now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    array[auth_private.attempt_key('factor', reserve_code.user_id::text)],
    array[attempts],
    reserve_code.now,
    span)
$$;

comment on function auth_api.reserve_code(auth.user_id, integer, timestamptz, interval) is $$
Reserves an attempt at a code of a second factor, from any IP address: the client already knows the password.
$$;

create or replace function auth_api.reserve_registration(
  networks text[], attempts integer[], now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    auth_private.attempt_keys('registration', networks),
    attempts,
    reserve_registration.now,
    span)
$$;

comment on function auth_api.reserve_registration(text[], integer[], timestamptz, interval) is
  'Reserves the creation of an account from these networks, each with its limit.';

create or replace function auth_api.reserve_response(
  networks text[], attempts integer[], now timestamptz, span interval)
returns json
language sql volatile security definer set search_path = '' as $$
  select auth_api.reserve_attempt(
    auth_private.attempt_keys('address', networks),
    attempts,
    reserve_response.now,
    span)
$$;

comment on function auth_api.reserve_response(text[], integer[], timestamptz, interval) is
  'Reserves the verification of a provider''s response, which counts like a login from these networks.';

create or replace function auth_api.settle_attempt(ids bigint[], counts boolean) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.attempts as a
  set counts = true
  where a.id = any (ids)
    and settle_attempt.counts;

  delete from auth_private.attempts as a
  where a.id = any (ids)
    and not settle_attempt.counts;
$$;

comment on function auth_api.settle_attempt(bigint[], boolean) is
  'Decides reserved attempts: they count, or they are deleted.';

create or replace function auth_api.try_code(user_id auth.user_id, sent jsonb, challenge uuid) returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  now constant timestamptz := (sent ->> 'now')::timestamptz;
  address constant inet := (sent ->> 'address')::inet;
  reservation json;
  is_accepted boolean;
begin
  if sent ? 'passkey' then
    -- Not counted: signatures can't be guessed.
    if not auth_private.use_passkey(try_code.user_id, sent -> 'passkey', address, now) then
      perform auth_api.note_event('passkey_failed', try_code.user_id, address, null, now);
      return json_build_object('outcome', 'refused');
    end if;
    return auth_private.spend_login(challenge, now);
  end if;

  reservation := auth_api.reserve_code(
    try_code.user_id, (sent ->> 'attempts')::integer, now, (sent ->> 'span')::interval);
  if reservation is null or reservation ->> 'retryAfter' is not null then return reservation; end if;

  if sent ->> 'step' is not null then
    is_accepted := auth_api.accept_step(
      try_code.user_id, decode(sent ->> 'secret', 'hex'), (sent ->> 'step')::bigint);
  else
    is_accepted := exists (
      select from jsonb_array_elements_text(sent -> 'hashes') as hash
      where auth_api.use_backup_code(try_code.user_id, decode(hash, 'hex'), now));
    if is_accepted then
      perform auth_api.note_event('backup_code_used', try_code.user_id, address, null, now);
    end if;
  end if;

  perform auth_api.settle_attempt(
    array(select json_array_elements_text(reservation -> 'ids')::bigint), not is_accepted);
  if not is_accepted then
    perform auth_api.note_event('code_failed', try_code.user_id, address, null, now);
    return json_build_object('outcome', 'wrong');
  end if;
  return auth_private.spend_login(challenge, now);
end $$;

comment on function auth_api.try_code(auth.user_id, jsonb, uuid) is $$
Spends the code of a second factor and then the challenge, if any: {outcome}, where outcome is accepted, wrong, or
spent: the challenge was used before. A wrong code counts as an attempt. Otherwise as reserve_attempt: {retryAfter}, or
null. `sent` is {secret, step, hashes, address, attempts, now, span}: a code of the app is sent as its secret and step,
a backup code as the hashes under which it may be stored, in hex. With `passkey`, it is a signature, null if it is not
valid, as use_passkey; the outcome is "refused" in place of "wrong".
$$;

create or replace function auth_private.spend_login(challenge uuid, now timestamptz) returns json
language plpgsql volatile set search_path = '' as $$
begin
  if challenge is not null and not auth_api.spend_challenge(challenge, now) then
    return json_build_object('outcome', 'spent');
  end if;
  return json_build_object('outcome', 'accepted');
end $$;

comment on function auth_private.spend_login(uuid, timestamptz) is
  'Spends the challenge of a login whose second factor is right, if any: {outcome}, accepted or spent.';

create or replace function auth_private.require_code(user_id auth.user_id, sent jsonb) returns json
language plpgsql volatile set search_path = '' as $$
begin
  if not auth_private.has_factor(require_code.user_id) then return json_build_object('outcome', 'accepted'); end if;
  if sent is null then return json_build_object('outcome', 'missing'); end if;
  return auth_api.try_code(require_code.user_id, sent, null);
end $$;

comment on function auth_private.require_code(auth.user_id, jsonb) is $$
Spends the code that a change of an account needs, as try_code; the outcome is "missing" if a factor is enabled and no
code was sent. Without a factor no code is needed. The caller has locked the account.
$$;

create or replace function auth_api.purge(
  now timestamptz, attempt_span interval, event_retention interval, email_reservation interval)
returns void
language sql volatile security definer set search_path = '' as $$
  select auth_private.lift_bans(null, purge.now);

  delete from auth_private.attempts as a
  where a.at < purge.now - attempt_span;

  delete from auth_private.refresh_tokens as t
  where t.expires_at < purge.now - interval '1 day';

  delete from auth_private.spent_challenges as c
  where c.spent_at < purge.now - interval '1 day';

  delete from auth_private.one_time_values as v
  where v.expires_at < purge.now;

  delete from auth_private.sessions as s
  where s.expires_at < purge.now - interval '1 day';

  delete from auth_private.api_keys as k
  where least(k.revoked_at, k.expires_at) < purge.now - interval '30 days';

  delete from auth_private.login_emails as e
  where e.released_at < purge.now - case
    when e.is_confirmed then email_reservation
    -- As long as the link of begin_mail undoes the change.
    else interval '24 hours'
  end;

  delete from auth_private.security_events as e
  where e.at < purge.now - event_retention;
$$;

create or replace function auth_api.purge_anonymous(now timestamptz, unused interval) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.accounts as a
  where a.is_anonymous
    and a.created_at < purge_anonymous.now - unused
    and not exists (
      select from auth_private.sessions as s
      where s.user_id = a.user_id
        and s.epoch = a.epoch
        and s.revoked_at is null
        and s.expires_at > purge_anonymous.now - unused)
$$;

comment on function auth_api.purge_anonymous(timestamptz, interval) is
  'Deletes anonymous accounts whose last session ended longer ago. The users of the application stay.';

comment on function auth_api.purge(timestamptz, interval, interval, interval) is
  'Deletes expired attempts, tokens, one-time values, sessions, keys, reservations of e-mails and security events.';

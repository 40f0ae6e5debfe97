-- security definer, here and below: callers may add users, but may not read accounts and attempts.
create or replace function auth_api.count_added_users(total bigint) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- Without a client, for example in a task: all such requests count as one network.
  networks constant jsonb := coalesce(
    nullif(current_setting('request.networks', true), ''), '[{"name": "", "factor": 1}]')::jsonb;
  allowed constant integer := (select value::integer from auth_private.settings where name = 'registrations');
  span constant interval := (select value::interval from auth_private.settings where name = 'registrations_window');
  counted record;
  oldest timestamptz;
  taken bigint;
begin
  for counted in
    select auth_private.attempt_key('registration', n.name) as key, n.factor * allowed as allowed
    from jsonb_to_recordset(networks) as n (name text, factor integer)
    order by key
  loop
    -- Requests and registrations of one network wait for each other: they use the same lock.
    perform pg_advisory_xact_lock(hashtextextended('content-service:attempts:' || encode(counted.key, 'hex'), 0));

    select count(*), min(a.at)
    into taken, oldest
    from auth_private.attempts as a
    where a.key = counted.key
      and a.at > now() - span;

    if taken + total > counted.allowed then
      raise sqlstate 'PT429' using message = format(
        'too many new users from your network: try again in %s s',
        greatest(1, ceil(extract(epoch from coalesce(oldest, now()) + span - now()))));
    end if;

    insert into auth_private.attempts (key, at, counts)
    select counted.key, now(), true
    from generate_series(1, total);
  end loop;
end $$;

comment on function auth_api.count_added_users(bigint) is
  $$
For triggers of the application: counts users that the caller adds like registrations, for each network of the caller.
Raises PT429 beyond the registrations of a network in 15 minutes.
$$;

create or replace function auth_api.limit_added_users(registrations integer, span interval) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.settings as s
  values ('registrations', registrations::text), ('registrations_window', span::text)
  on conflict (name) do update
  set value = excluded.value
  where s.value <> excluded.value
$$;

comment on function auth_api.limit_added_users(integer, interval) is
  'Stores the registrations of a network, and in which time, for auth_api.count_added_users.';

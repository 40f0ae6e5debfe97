-- security definer, here and below: callers may add users, but may not read accounts and attempts.
create or replace function auth_private.note_added_users() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  -- The role of the caller, in contrast to current_user.
  role constant text := current_setting('role');
  total constant bigint := (select count(*) from added);
begin
  -- "none": the service, which counts registrations itself, and SQL clients.
  if role = 'none' or pg_has_role(role, 'admin', 'member')
    or (select r.rolbypassrls from pg_roles as r where r.rolname = role)
  then
    return null;
  end if;

  insert into auth_private.added_users (user_id)
  select a.id
  from added as a;
  if internal.is_open_to_editors() then return null; end if;

  if total > 1 and auth.uid() is null then
    raise insufficient_privilege using message = 'sign in to add several users at once';
  end if;
  perform auth_private.count_added_users(total);
  return null;
end $$;

comment on function auth_private.note_added_users() is $$
Counts the users that a statement has added like registrations from the network of the caller, unless the caller is an
administrator or bypasses row-level security. Raises 42501 if an anonymous caller adds several. With USERS_WRITE=open
they do not count: every caller may change and delete every user.
$$;

create or replace function auth_private.count_added_users(total bigint) returns void
language plpgsql volatile set search_path = '' as $$
declare
  -- Without a client, for example in a task: all such requests count as one network.
  networks constant jsonb := coalesce(
    nullif(current_setting('request.networks', true), ''), '[{"name": "", "factor": 1}]')::jsonb;
  allowed constant integer := (select value::integer from internal.settings where name = 'registrations');
  span constant interval := (select value::interval from internal.settings where name = 'registrations_window');
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

comment on function auth_private.count_added_users(bigint) is
  'Counts new users for each network of the caller. Raises PT429 beyond REGISTRATIONS_PER_ADDRESS in LOGIN_WINDOW.';

create or replace trigger _400_added_users after insert on public.users
  referencing new table as added
  for each statement execute function auth_private.note_added_users();

create or replace function auth_private.release_email(email text) returns void
language sql volatile set search_path = '' as $$
  update public.users as u
  set email = 'released-' || gen_random_uuid() || '@users.invalid'
  where lower(u.email) = lower(release_email.email)
    and exists (select from auth_private.added_users as a where a.user_id = u.id)
    and not exists (select from auth_private.accounts as a where a.user_id = u.id)
$$;

comment on function auth_private.release_email(text) is $$
Takes an e-mail from a user whom a caller has added without an account, so that a person can sign in with it. The user
keeps everything else: nothing that was prepared for this row gets to the person.
$$;

create or replace function auth_api.limit_added_users(registrations integer, span interval) returns void
language sql volatile security definer set search_path = '' as $$
  insert into internal.settings as s
  values ('registrations', registrations::text), ('registrations_window', span::text)
  on conflict (name) do update
  set value = excluded.value
  where s.value <> excluded.value
$$;

comment on function auth_api.limit_added_users(integer, interval) is
  'Stores REGISTRATIONS_PER_ADDRESS and LOGIN_WINDOW for auth_private.count_added_users.';

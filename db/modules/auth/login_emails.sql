-- Trigger functions for the table of users of the application, whose arguments name columns. They are security definer:
-- callers who may change users may not read accounts.
create or replace function auth_api.refuse_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  changed constant jsonb := to_jsonb(new);
begin
  -- After the row is written: an insert that has waited for a concurrent change sees what the change has reserved.
  perform from auth_private.login_emails as e
  where auth_private.email_key(e.email) = auth_private.email_key(changed ->> tg_argv[1])
    and e.user_id <> (changed ->> tg_argv[0])::auth.user_id;
  if not found then return null; end if;
  raise unique_violation using
    message = 'email already registered',
    schema = tg_table_schema,
    table = tg_table_name,
    constraint = tg_argv[2];
end $$;

comment on function auth_api.refuse_email() is $$
Raises 23505 for the e-mail of a user if another account signs in with it, or it is reserved for another account. The
arguments are the columns of the id and the e-mail, and the name of the unique index that the error names.
$$;

create or replace function auth_private.normalize_email() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  -- Other encodings do not have all spellings of an e-mail, which then could not be compared.
  if current_setting('server_encoding') <> 'UTF8' and new.email !~ '^[[:ascii:]]*$' then
    raise untranslatable_character using message = 'this database can store e-mails in ASCII only';
  end if;
  new.email := auth_private.normal_email(new.email);
  return new;
end $$;

comment on function auth_private.normalize_email() is
  'E-mails are stored in their normal form, also those that SQL of an application or an import writes.';

create or replace trigger _100_normal before insert or update of email on auth_private.login_emails
  for each row execute function auth_private.normalize_email();

create or replace function auth_private.set_login_email(user_id auth.user_id, email text, by text)
returns void
language plpgsql volatile set search_path = '' as $$
declare
  new_email constant text := auth_private.normal_email(set_login_email.email);
  previous text;
  was_confirmed boolean;
  is_kept boolean;
begin
  -- Changes of one account wait for each other.
  select a.email_confirmed_at is not null
  into was_confirmed
  from auth_private.accounts as a
  where a.user_id = set_login_email.user_id
  for no key update;

  previous := auth_private.email_of(set_login_email.user_id);
  if previous is null or previous = new_email then return; end if;

  update auth_private.login_emails as e
  set released_at = now(),
    is_confirmed = was_confirmed
  where e.email = previous;

  insert into auth_private.login_emails as e (email, user_id)
  values (new_email, set_login_email.user_id)
  on conflict ((auth_private.email_key(e.email))) do update
  set email = excluded.email,
    released_at = null
  where e.user_id = excluded.user_id;
  if not found then
    raise unique_violation using
      message = 'email already registered',
      schema = 'auth_private',
      table = 'login_emails',
      constraint = 'login_emails_email_key';
  end if;

  perform from auth_private.login_emails as e
  where e.user_id = set_login_email.user_id
    and e.released_at is not null
  offset 20;
  if found then
    raise program_limit_exceeded using
      message = 'the e-mail was changed 20 times, and the earlier ones are still reserved: '
        'go back to one of them, or try again later';
  end if;

  -- Only the previous e-mail was confirmed.
  update auth_private.accounts as a
  set email_confirmed_at = null
  where a.user_id = set_login_email.user_id
    and a.email_confirmed_at is not null;

  insert into auth_private.security_events (event, user_id, address, detail)
  values (
    'login_email_changed',
    set_login_email.user_id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_build_object('from', previous, 'to', new_email, 'by', set_login_email.by));
  -- Anyone can enter addresses of others one after the other: at most one that was not confirmed hears of a change.
  is_kept := set_login_email.by = 'owner' and (was_confirmed or not exists (
    select from auth_private.login_emails as e
    where e.user_id = set_login_email.user_id
      and e.released_at is not null
      and not e.is_confirmed
      and e.email <> previous));
  if is_kept then
    is_kept := auth_private.add_notice(
      'email-changed', set_login_email.user_id, previous, jsonb_build_object('newEmail', new_email));
  end if;
  if not was_confirmed and not is_kept then
    delete from auth_private.login_emails as e
    where e.user_id = set_login_email.user_id
      and e.email = previous;
  end if;
  perform pg_notify('accounts', json_build_object('user', set_login_email.user_id)::text);
end $$;

comment on function auth_private.set_login_email(auth.user_id, text, text) is $$
Changes the e-mail that an account signs in with, and reserves the previous one for it, which hears of a change by the
owner. One that was not confirmed stays reserved only while its link undoes the change. Does nothing for a user without
an account. Raises 23505 if another account has the e-mail, and 54000 if the account has 20 reserved ones.
$$;

create or replace function auth_api.follow_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  id constant auth.user_id := (to_jsonb(new) ->> tg_argv[0])::auth.user_id;
  previous constant text := to_jsonb(old) ->> tg_argv[1];
  email constant text := to_jsonb(new) ->> tg_argv[1];
begin
  insert into auth_private.security_events (event, user_id, address, detail)
  values (
    'email_changed',
    id,
    nullif(current_setting('request.address', true), '')::inet,
    jsonb_strip_nulls(jsonb_build_object(
      'from', previous,
      'to', email,
      'role', coalesce(auth.claims() ->> 'role', session_user),
      'user', auth.uid())));

  -- The service has checked the characters of an e-mail that POST /auth/email sets.
  if id = auth.uid() and auth.has_recent_sign_in() and email ~ '^[[:ascii:]]+$' then
    if auth_api.setting('email_confirm') = 'off' then
      perform auth_private.set_login_email(id, email, 'owner');
    elsif auth_api.has_account(id) then
      perform auth_private.request_email(id, email);
    end if;
  end if;
  return null;
end $$;

comment on function auth_api.follow_email() is $$
Records each change of the e-mail of a user as a security event. If the user has made it with a recent sign-in, the user
also signs in with the new e-mail, unless EMAIL_CONFIRM=off after it is confirmed; after a change by an API key, an
admin or anyone else the user signs in as before.
The arguments are the columns of the id and the e-mail.
$$;

create or replace function auth_api.follow_name() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  update auth_private.accounts as a
  -- From the first letter on, as many as a name may have.
  set name = substring(to_jsonb(new) ->> tg_argv[1] from '\S.{0,199}')
  where a.user_id = (to_jsonb(new) ->> tg_argv[0])::auth.user_id
    and to_jsonb(new) ->> tg_argv[1] ~ '\S';
  return null;
end $$;

comment on function auth_api.follow_name() is $$
Changes the name of an account with that of its user, and keeps it if the new one is empty. The arguments are the
columns of the id and the name.
$$;

create or replace function auth_private.upgrade_account(user_id auth.user_id) returns void
language plpgsql volatile set search_path = '' as $$
begin
  update auth_private.accounts as a
  set is_anonymous = false
  where a.user_id = upgrade_account.user_id
    and a.is_anonymous;
  if not found then return; end if;
  insert into auth_private.security_events (event, user_id, address)
  values (
    'account_upgraded', upgrade_account.user_id, nullif(current_setting('request.address', true), '')::inet);
end $$;

comment on function auth_private.upgrade_account(auth.user_id) is
  'An anonymous account that has got an e-mail or an identity is like any other from then on.';

create or replace function auth_private.change_email(user_id auth.user_id, email text, by text)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  -- Read by is_own_change.
  perform set_config('request.new_email', 'on', true);
  perform auth_private.call_hook('new_email', change_email.user_id, change_email.email);
  perform set_config('request.new_email', '', true);
  if auth_private.email_of(change_email.user_id) is null then
    insert into auth_private.login_emails (user_id, email)
    values (change_email.user_id, change_email.email);
    perform auth_private.upgrade_account(change_email.user_id);
    perform pg_notify('accounts', json_build_object('user', change_email.user_id)::text);
    return;
  end if;
  perform auth_private.set_login_email(
    change_email.user_id, change_email.email, change_email.by);
end $$;

comment on function auth_private.change_email(auth.user_id, text, text) is
  'Changes the e-mail that an account signs in with, or adds the first one; the hook new_email does so for its user.';

create or replace function auth_private.request_email(user_id auth.user_id, email text, mail jsonb default '{}')
returns text
language plpgsql volatile set search_path = '' as $$
declare
  current constant text := auth_private.email_of(request_email.user_id);
begin
  if request_email.email = current then return 'changed'; end if;
  if not auth.is_email(request_email.email) then return 'malformed'; end if;
  if 20 <= (
    select count(*)
    from auth_private.login_emails as e
    where e.user_id = request_email.user_id
      and e.released_at is not null)
  then return 'too often'; end if;
  if not auth_private.count_mail('change of e-mail', request_email.user_id::text) then return 'too many'; end if;

  delete from auth_private.one_time_tokens as t
  where t.user_id = request_email.user_id
    and t.kind = 'change';
  -- Only shows what the user has requested, also if the address is taken: no one knows its token.
  insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, data, expires_at)
  select
    sha256(gen_random_uuid()::text::bytea),
    'change',
    request_email.user_id,
    current,
    jsonb_build_object('newEmail', request_email.email),
    now() + interval '1 hour'
  where current is not null;

  if exists (
    select from auth_private.login_emails as e
    where e.user_id <> request_email.user_id
      and auth_private.email_key(e.email) = auth_private.email_key(request_email.email))
  then
    perform auth_private.add_limited_mail('account-exists', null, request_email.email, request_email.mail);
  else
    perform auth_private.add_limited_mail(
      'confirm',
      request_email.user_id,
      request_email.email,
      request_email.mail || jsonb_strip_nulls(jsonb_build_object('from', current)));
  end if;
  return 'pending';
end $$;

comment on function auth_private.request_email(auth.user_id, text, jsonb) is $$
Unless EMAIL_CONFIRM=off, an account signs in with another e-mail after the link that it has received was used:
"pending".
The answer is the same for an address that is taken, whose owner hears of that. "too many": beyond five e-mails
requests of one account in an hour. Otherwise as auth_api.change_email.
$$;

create or replace function auth_private.act_for(user_id auth.user_id) returns void
language sql volatile set search_path = '' as $$
  select set_config('request.jwt.claims', json_build_object('sub', a.user_id::text, 'role', a.role)::text, true)
  from auth_private.accounts as a
  where a.user_id = act_for.user_id
$$;

comment on function auth_private.act_for(auth.user_id) is
  'What follows in the transaction counts as done by the user, for triggers of the application.';

create or replace function auth_api.change_email(
  user_id auth.user_id, email text, address inet, session uuid, mail jsonb default '{}')
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare outcome text := 'changed';
begin
  perform set_config('request.address', coalesce(host(change_email.address), ''), true);
  perform auth_private.act_for(change_email.user_id);
  if auth_api.setting('email_confirm') <> 'off' then
    outcome := auth_private.request_email(change_email.user_id, change_email.email, change_email.mail);
  else
    perform auth_private.change_email(change_email.user_id, change_email.email, 'owner');
  end if;
  -- Locked after the user, as other changes of users do, so that there are no deadlocks.
  if not auth_private.lock_sign_in(change_email.user_id, change_email.session) then raise sqlstate 'CS000'; end if;
  return outcome;
exception
  when sqlstate 'CS000' then return 'ended';
  when unique_violation then return 'taken';
  when check_violation then return 'malformed';
  when program_limit_exceeded then return 'too often';
end $$;

comment on function auth_api.change_email(auth.user_id, text, inet, uuid, jsonb) is $$
Changes the e-mail of a user and the e-mail that the account signs in with: "changed". Otherwise nothing changes:
"ended": the session that the user is signed in with, if any, has ended, or the account is disabled; "pending" or
"too many", as request_email; "taken" or reserved for another account; "malformed"; or "too often": the account has 20
reserved e-mails. `mail` is the data of the e-mail that confirms.
$$;

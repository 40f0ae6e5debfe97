create or replace function auth_api.use_settings(settings jsonb) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare previous constant text := auth_api.setting('users_email');
begin
  insert into auth_private.settings as s
  select given.key, given.value
  from jsonb_each_text(settings) as given
  where given.key in ('mail', 'mails_per_recipient', 'email_confirm', 'signup', 'users_email')
  on conflict (name) do update
  set value = excluded.value
  where s.value <> excluded.value;

  if settings ->> 'users_email' is distinct from previous then
    perform auth_private.show_emails(settings ->> 'users_email' = 'public');
  end if;
end $$;

comment on function auth_api.use_settings(jsonb) is $$
Stores whether the service sends e-mails, how many to a mailbox, EMAIL_CONFIRM, SIGNUP and USERS_EMAIL. The application
shows or hides e-mails when the last one changes.
$$;

create or replace function auth_private.add_notice(kind text, user_id auth.user_id, email text, data jsonb)
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  recipient constant text := coalesce(
    email,
    (
      select e.email
      from auth_private.login_emails as e
      where e.user_id = add_notice.user_id
        and e.released_at is null
    ));
begin
  if recipient is null or auth_api.setting('mail') is distinct from 'on' then return false; end if;
  -- The address may be that of another person. Each kind counts alone: one cannot use up the limit of another.
  if not auth_private.count_mail('notice', kind, auth_private.mail_key(recipient)) then return false; end if;
  perform auth_private.add_mail(
    kind,
    user_id,
    recipient,
    jsonb_build_object('at', now(), 'address', nullif(current_setting('request.address', true), '')) || data,
    now());
  return true;
end $$;

comment on function auth_private.add_notice(text, auth.user_id, text, jsonb) is $$
Adds an e-mail about what has happened to an account, to this address, or to the one that the account signs in with.
False if the service sends no e-mails, and beyond five e-mails of this kind in an hour.
$$;

create or replace function auth_private.notify_password() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  perform auth_private.add_notice('password-changed', new.user_id, null, '{}');
  return null;
end $$;

comment on function auth_private.notify_password() is 'Tells a user that the password has changed.';

create or replace trigger _610_notice after update on auth_private.accounts
  for each row when (
    auth_private.is_other_password(old.password_hash, new.password_hash)
    and new.password_hash is not null)
  execute function auth_private.notify_password();

-- security definer: a cascade from the users of the application fires it, also without rows, in the role that deletes
-- them.
create or replace function auth_private.notify_factor() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- With the account, its e-mail is gone too. Several factors are one notice.
  perform auth_private.add_notice('factor-removed', r.user_id, null, '{}')
  from (select distinct f.user_id from removed as f where f.enabled_at is not null) as r;
  return null;
end $$;

comment on function auth_private.notify_factor() is 'Tells users that a second factor is removed.';

create or replace trigger _610_notice after delete on auth_private.factors
  referencing old table as removed
  for each statement execute function auth_private.notify_factor();

-- security definer: as notify_factor.
create or replace function auth_private.notify_passkey() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform auth_private.add_notice('factor-removed', r.user_id, null, '{}')
  from (select distinct p.user_id from removed as p) as r;
  return null;
end $$;

comment on function auth_private.notify_passkey() is 'Tells users that a passkey is removed.';

create or replace trigger _610_notice after delete on auth_private.passkeys
  referencing old table as removed
  for each statement execute function auth_private.notify_passkey();

create or replace function auth_private.is_new_device(user_id auth.user_id, device text) returns boolean
language sql stable set search_path = '' as $$
  -- The first sign-in of a user is not news.
  select exists (select from auth_private.known_devices as d where d.user_id = is_new_device.user_id)
    and not exists (
      select from auth_private.known_devices as d
      where d.user_id = is_new_device.user_id
        and d.device = coalesce(is_new_device.device, ''))
$$;

comment on function auth_private.is_new_device(auth.user_id, text) is
  'Whether a user has signed in before, but not with this device.';

create or replace function auth_private.notify_device() returns trigger
language plpgsql volatile set search_path = '' as $$
declare
  has_mail constant boolean := coalesce(auth_api.setting('mail') = 'on', false);
  is_new boolean;
begin
  if not has_mail and auth_private.hook('after_sign_in') is null then return null; end if;
  is_new := auth_private.is_new_device(new.user_id, new.device);
  insert into auth_private.known_devices (user_id, device, seen_at)
  values (new.user_id, coalesce(new.device, ''), new.started_at)
  on conflict on constraint known_devices_pkey do update
  set seen_at = excluded.seen_at;
  if not is_new then return null; end if;
  -- A program may name itself differently at each sign-in.
  delete from auth_private.known_devices as d
  where d.user_id = new.user_id
    and d.device in (
      select o.device
      from auth_private.known_devices as o
      where o.user_id = new.user_id
      order by o.seen_at desc, o.device
      offset 100);
  if not has_mail then return null; end if;
  perform auth_private.add_notice(
    'new-device', new.user_id, null, jsonb_build_object('device', new.device, 'address', host(new.network)));
  return null;
end $$;

comment on function auth_private.notify_device() is
$$
Remembers the device of a sign-in, up to 100 for a user, and tells the user of one that the user has not signed in with
before.
$$;

create or replace trigger _610_device after insert or update of started_at on auth_private.sessions
  for each row execute function auth_private.notify_device();

create or replace function auth_api.undo_email(token_hash bytea, address inet, now timestamptz) returns auth.user_id
language plpgsql volatile security definer set search_path = '' as $$
declare
  token constant auth_private.one_time_tokens := auth_private.take_token(
    undo_email.token_hash, 'email-changed', undo_email.now);
begin
  if token.user_id is null then return null; end if;
  perform set_config('request.address', coalesce(host(undo_email.address), ''), true);
  perform auth_private.act_for(token.user_id);
  perform auth_private.change_email(token.user_id, token.email, 'undo');

  perform auth_private.drop_unconfirmed_factors(token.user_id, undo_email.now);
  -- Whoever has changed the e-mail knows the password, or has a sign-in. Both end: the owner chooses a new password.
  update auth_private.accounts as a
  set password_hash = null,
    email_confirmed_at = undo_email.now,
    epoch = a.epoch + 1
  where a.user_id = token.user_id;
  update auth_private.api_keys as k
  set revoked_at = undo_email.now
  where k.user_id = token.user_id
    and k.revoked_at is null;
  delete from auth_private.identities as i
  where i.user_id = token.user_id;
  perform auth_private.delete_factors(
    token.user_id,
    array(
      select p.id
      from auth_private.passkeys as p
      where p.user_id = token.user_id
      union all
      select f.id
      from auth_private.factors as f
      where f.user_id = token.user_id
        -- Since the change: the e-mail is sent later.
        and f.enabled_at >= (token.data ->> 'at')::timestamptz),
    null,
    '{"by": "e-mail"}',
    undo_email.now);
  delete from auth_private.one_time_tokens as t
  where t.user_id = token.user_id;
  perform auth_private.add_mail('reset', token.user_id, token.email, '{}', undo_email.now);
  return token.user_id;
end $$;

comment on function auth_api.undo_email(bytea, inet, timestamptz) is $$
Takes the token that the previous e-mail of an account has received. The account signs in with that e-mail again; its
password, sign-ins, API keys, identities, passkeys and second factors that were enabled since the change, or under an
e-mail that was not confirmed, end, and an e-mail to choose a new password follows. Null if the token is not valid.
$$;

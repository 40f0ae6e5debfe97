-- Users whom another application adds to the table of users, or changes. A value of its row never fails its statement.
create or replace function auth_private.usable_hash(hash text) returns text
language plpgsql immutable set search_path = '' as $$
declare
  base64 constant text := '[A-Za-z0-9+/_-]{2,}={0,2}';
  salt_and_key constant text := format('\$%s\$(%s)$', base64, base64);
  scrypt constant text := '=(\d{1,2}),r=(\d{1,6}),p=(\d{1,6})';
  found text[];
  work double precision;
begin
  -- The forms and the limits of rest-gateway/auth/password-hashes.ts: others are never verified.
  if hash ~ '^\$2' then
    return case when hash ~ '^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$' then hash end;
  end if;

  found := regexp_match(
    hash, '^\$argon2id?\$(?:v=(?:16|19)\$)?m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,3})' || salt_and_key);
  if found is not null then
    work := found[1]::double precision * found[2]::integer;
    return case
      when found[2]::integer >= 1
        and found[3]::integer >= 1
        and found[1]::integer between 8 * found[3]::integer and 131072
        and work <= 1048576 then hash
    end;
  end if;

  found := coalesce(
    regexp_match(hash, '^\$scrypt\$ln' || scrypt || salt_and_key),
    regexp_match(hash, format('^\$fbscrypt\$v=1,n%s,ss=%s,sk=%s%s', scrypt, base64, base64, salt_and_key)));
  if found is not null then
    work := 2::double precision ^ found[1]::integer * found[2]::integer;
    return case
      when found[1]::integer >= 1
        and found[2]::integer >= 1
        and found[3]::integer >= 1
        and work <= 1048576
        and work * found[3]::integer <= 2097152 then hash
    end;
  end if;

  found := regexp_match(hash, '^\$pbkdf2-(sha1|sha256|sha512)\$i=(\d{1,9})(?:,l=\d{1,3})?' || salt_and_key);
  work := found[2]::double precision * ceil(
    floor(length(rtrim(found[3], '=')) * 3 / 4.0)
    / case found[1] when 'sha1' then 20 when 'sha256' then 32 else 64 end);
  return case when found[2]::integer >= 1 and work <= 2000000 then hash end;
end $$;

comment on function auth_private.usable_hash(text) is $$
The hash of a password; null for a text that the service verifies no password with: one that is none, such as "" and "!"
of users without a password, or a hash that is cut off or beyond the limits.
$$;

create or replace function auth_private.hash_for(user_id auth.user_id, hash text) returns text
language plpgsql volatile set search_path = '' as $$
begin
  if hash like '$%' and auth_private.usable_hash(hash) is null then
    raise warning 'user % has no password: the hash is malformed or beyond the limits', user_id;
  end if;
  return auth_private.usable_hash(hash);
end $$;

comment on function auth_private.hash_for(auth.user_id, text) is
  'The usable hash of the password of a user. Of a hash that is not usable there is a warning.';

create or replace function auth.try_add_account(
  user_id auth.user_id, name text, email text, password_hash text default null,
  disabled_at timestamptz default null, email_confirmed_at timestamptz default null,
  user_metadata jsonb default '{}', app_metadata jsonb default '{}')
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  -- A request proves neither a password nor a mailbox: its caller would sign in with the e-mail of another person.
  is_proved constant boolean := not auth_private.is_request();
  violated_schema text;
  violated_table text;
  violated text;
begin
  if auth_api.has_account(try_add_account.user_id) then return false; end if;
  perform auth.add_account(
    try_add_account.user_id,
    -- From the first letter on, as many as a name may have.
    -- An e-mail without letters is the reason that the warning has.
    coalesce(
      substring(try_add_account.name from '\S.{0,199}'), substring(try_add_account.email from '\S.{0,199}'), '-'),
    try_add_account.email,
    password_hash => case
      when is_proved then auth_private.hash_for(try_add_account.user_id, try_add_account.password_hash)
    end,
    disabled_at => try_add_account.disabled_at,
    email_confirmed_at => case when is_proved then try_add_account.email_confirmed_at end);
  update auth_private.accounts as a
  set user_metadata = case jsonb_typeof(try_add_account.user_metadata)
      when 'object' then try_add_account.user_metadata
      else '{}'
    end,
    app_metadata = case
      when is_proved and jsonb_typeof(try_add_account.app_metadata) = 'object' then try_add_account.app_metadata
      else '{}'
    end
  where a.user_id = try_add_account.user_id;
  return true;
exception when integrity_constraint_violation then
  get stacked diagnostics
    violated_schema = schema_name,
    violated_table = table_name,
    violated = constraint_name;
  -- Neither the hash nor the e-mail: clients write warnings into their logs.
  raise warning 'user % has no account: %',
    try_add_account.user_id,
    coalesce(auth_private.constraint_message(violated_schema, violated_table, violated), 'email is missing');
  return false;
end $$;

comment on function auth.try_add_account(
  auth.user_id, text, text, text, timestamptz, timestamptz, jsonb, jsonb) is $$
For seeds, imports and triggers of the application: as auth.add_account, but no value is an error. Without a name the
account has the e-mail as its name, and without a usable hash no password. If the e-mail is malformed or of
another account, there is a warning and no account. Returns whether it has added one; a user who has one keeps it.
In a request to the service, such as one that inserts a row into
the table of users, the account has no password and no app_metadata, and its e-mail is not confirmed.
$$;

revoke all on function auth.try_add_account(
  auth.user_id, text, text, text, timestamptz, timestamptz, jsonb, jsonb) from public;
grant execute on function auth.try_add_account(
  auth.user_id, text, text, text, timestamptz, timestamptz, jsonb, jsonb) to auth_owner;

create or replace function auth_private.is_request() returns boolean
language sql stable set search_path = ''
-- The role of the caller, in contrast to current_user. Other applications have roles and logins of their own.
return current_setting('role') <> 'none' and exists (
  select from unnest(array['anon', 'authenticated', 'service_role']) as r (name)
  where pg_has_role(session_user, r.name, 'member'));

comment on function auth_private.is_request() is
  'Whether a login of the service has become the role of a caller, in contrast to what another application does.';

create or replace function auth_private.is_own_change() returns boolean
language sql stable set search_path = ''
return current_setting('request.new_email', true) is not distinct from 'on' or auth_private.is_request();

comment on function auth_private.is_own_change() is
  'Whether a row of a user changes by a request to the service or its hook new_email, and not by another application.';

-- security definer, here and below: a role that may change the row of a user may not change accounts.
create or replace function auth_api.replace_password() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  replaced constant text := auth_private.usable_hash(to_jsonb(old) ->> tg_argv[1]);
  id constant auth.user_id := (to_jsonb(new) ->> tg_argv[0])::auth.user_id;
  hash constant text := auth_private.usable_hash(to_jsonb(new) ->> tg_argv[1]);
begin
  -- A request proves no password: the thief of a token would keep the account.
  if replaced is not distinct from hash or auth_private.is_own_change() then return null; end if;
  update auth_private.accounts as a
  set password_hash = auth_private.hash_for(id, to_jsonb(new) ->> tg_argv[1])
  where a.user_id = id;
  return null;
end $$;

comment on function auth_api.replace_password() is $$
For triggers of the application: the account of a user gets the password that another application has stored, which ends
all sign-ins, and none if it has removed the hash. The arguments are the columns of the id and the hash.
$$;

create or replace function auth_api.replace_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare
  id constant auth.user_id := (to_jsonb(new) ->> tg_argv[0])::auth.user_id;
  email constant text := to_jsonb(new) ->> tg_argv[1];
  previous constant text := auth_private.email_of(id);
begin
  -- The thief of a token would get the e-mails that reset the password.
  if previous is null or auth_private.is_own_change() then return null; end if;
  perform auth_private.set_login_email(id, email, 'application');
  perform auth_private.end_pending_change(id);
  -- The table says whose an e-mail is: another user may have the previous one from now on.
  delete from auth_private.login_emails as e
  where e.user_id = id
    and e.email = previous
    and e.released_at is not null;
  return null;
exception when integrity_constraint_violation or program_limit_exceeded then
  raise warning 'user % signs in with the previous e-mail: the new one is malformed, missing or taken', id;
  return null;
end $$;

comment on function auth_api.replace_email() is $$
For triggers of the application: a user whose e-mail another application has changed signs in with the new one. If it is
malformed or of another account, there is a warning, and the user signs in as before. The arguments are the columns of
the id and the e-mail.
$$;

-- Users whom another application adds to the table of users. A value of its row never fails its statement.
create or replace function auth_private.usable_hash(hash text) returns text
language sql immutable set search_path = ''
-- As accounts_password_hash_format.
return case when hash ~ '^\$(argon2id?|2[aby]|scrypt|fbscrypt|pbkdf2-sha(1|256|512))\$' then hash end;

comment on function auth_private.usable_hash(text) is
  'The hash of a password; null for a text that is none, such as "" and "!" of users without a password.';

create or replace function auth.try_add_account(
  user_id auth.user_id, name text, email text, password_hash text default null,
  disabled_at timestamptz default null, email_confirmed_at timestamptz default null)
returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  violated_schema text;
  violated_table text;
  violated text;
begin
  if auth_api.has_account(try_add_account.user_id) then return false; end if;
  perform auth.add_account(
    try_add_account.user_id,
    -- From the first letter on, as many as a name may have.
    coalesce(substring(try_add_account.name from '\S.{0,199}'), left(try_add_account.email, 200)),
    try_add_account.email,
    password_hash => auth_private.usable_hash(try_add_account.password_hash),
    disabled_at => try_add_account.disabled_at,
    email_confirmed_at => try_add_account.email_confirmed_at);
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

comment on function auth.try_add_account(auth.user_id, text, text, text, timestamptz, timestamptz) is $$
For seeds, imports and triggers of the application: as auth.add_account, but no value is an error. Without a name the
account has the e-mail as its name, and without a hash in one of the forms no password. If the e-mail is malformed or of
another account, there is a warning and no account. Returns whether it has added one; a user who has one keeps it.
$$;

revoke all on function auth.try_add_account(auth.user_id, text, text, text, timestamptz, timestamptz) from public;
grant execute on function auth.try_add_account(auth.user_id, text, text, text, timestamptz, timestamptz) to auth_owner;

-- Users of another system, whom an operator imports: cli/user-import.ts.
create or replace function auth_private.constraint_message(schema text, relation text, name text) returns text
language sql stable set search_path = ''
return coalesce(
  (
    select obj_description(c.oid, 'pg_constraint')
    from pg_constraint as c
    where c.conname = constraint_message.name
      and c.conrelid = to_regclass(format('%I.%I', schema, relation))
  ),
  obj_description(to_regclass(format('%I.%I', schema, constraint_message.name)), 'pg_class'));

comment on function auth_private.constraint_message(text, text, text) is
  'The comment of a constraint or a unique index, which says what a value that violates it must be; null without one.';

create or replace function auth_private.is_user(id auth.user_id) returns boolean
language plpgsql stable set search_path = '' as $$
declare
  users regclass;
  key name;
  found_user boolean;
begin
  select c.confrelid, a.attname
  into users, key
  from pg_constraint as c
  join pg_attribute as a on a.attrelid = c.confrelid and a.attnum = c.confkey[1]
  where c.conrelid = 'auth_private.accounts'::regclass
    and c.conname = 'accounts_user_id_fkey';
  if not found then return false; end if;
  execute format('select exists (select from %s where %I = $1)', users, key) into found_user using id;
  return found_user;
end $$;

comment on function auth_private.is_user(auth.user_id) is
  'Whether the table of users of the application has this user.';

-- security definer: the hooks run as auth_owner, as at sign-up.
create or replace function auth_private.insert_imported(entries jsonb[]) returns void
language plpgsql volatile security definer set search_path = '' as $$
declare
  must_confirm constant boolean := auth_api.setting('email_confirm') = 'required';
  has_before constant boolean := auth_private.hook('before_sign_up') is not null;
  has_after constant boolean := auth_private.hook('after_sign_up') is not null;
  entry jsonb;
  fields jsonb;
  new_id auth.user_id;
  added jsonb[] := '{}';
begin
  foreach entry in array entries loop
    fields := entry -> 'fields';
    if (entry -> 'exists')::boolean then
      new_id := (entry ->> 'id')::auth.user_id;
    else
      if has_before then fields := auth_private.before_sign_up(fields); end if;
      new_id := auth_private.new_user(fields, (entry ->> 'id')::auth.user_id);
    end if;
    added := added || (entry -> 'account' || jsonb_build_object(
      'userId', new_id,
      'name', fields -> 'name',
      'email', fields -> 'email',
      'mustConfirm', must_confirm and entry -> 'account' ->> 'emailConfirmedAt' is null,
      'fields', fields,
      'exists', entry -> 'exists'));
  end loop;
  perform auth_private.insert_accounts(to_jsonb(added));

  insert into auth_private.security_events (event, user_id, detail)
  select 'registered', (each ->> 'userId')::auth.user_id, '{"by": "import"}'
  from unnest(added) as each;

  if not has_after then return; end if;
  foreach entry in array added loop
    continue when (entry -> 'exists')::boolean;
    perform auth_private.call_hook('after_sign_up', (entry ->> 'userId')::auth.user_id, entry -> 'fields');
  end loop;
end $$;

comment on function auth_private.insert_imported(jsonb[]) is $$
Creates users with accounts, as sign_up does, or accounts for users who exist. An entry is {id, exists, fields,
account}, where `account` has further fields of insert_accounts.
$$;

create or replace function auth_private.attach_imported(entries jsonb[]) returns integer
language plpgsql volatile set search_path = '' as $$
declare
  entry jsonb;
  entry_id uuid;
  created_at timestamptz;
  is_named_so boolean;
  account auth_private.accounts;
  attached integer := 0;
begin
  foreach entry in array entries loop
    entry_id := entry ->> 'id';
    created_at := coalesce((entry ->> 'createdAt')::timestamptz, now());
    select *
    into account
    from auth_private.accounts as a
    where a.public_id = (entry ->> 'owner')::uuid
    for no key update;
    if not found then
      raise no_data_found using message = format('there is no account of the user %s', entry ->> 'owner');
    end if;
    continue when entry_id = any (account.imported);

    if entry ? 'secret' then
      -- A session may have begun since the account was imported: it has proved no second factor.
      if not auth_private.has_factor(account.user_id) then
        perform auth_private.end_other_sign_ins(account.user_id, null, now());
      end if;
      -- Supabase has several without a name.
      is_named_so := exists (
        select from auth_private.factors as f
        where f.user_id = account.user_id
          and f.friendly_name = entry ->> 'name');
      insert into auth_private.factors (id, user_id, friendly_name, secret, enabled_at, created_at, is_unconfirmed)
      values (
        entry_id, account.user_id, case when is_named_so then entry ->> 'id' else entry ->> 'name' end,
        decode(entry ->> 'secret', 'hex'), created_at, created_at, auth_private.awaits_confirmation(account.user_id));
    else
      insert into auth_private.identities (id, user_id, provider, issuer, subject, email, linked_at, used_at)
      values (
        entry_id, account.user_id, entry ->> 'provider', entry ->> 'issuer', entry ->> 'subject', entry ->> 'email',
        created_at, (entry ->> 'usedAt')::timestamptz);
    end if;

    update auth_private.accounts as a
    set imported = a.imported || entry_id
    where a.user_id = account.user_id;
    insert into auth_private.security_events (event, user_id, detail)
    values (
      case when entry ? 'secret' then 'mfa_enabled' else 'identity_linked' end, account.user_id, '{"by": "import"}');
    attached := attached + 1;
  end loop;
  return attached;
end $$;

comment on function auth_private.attach_imported(jsonb[]) is $$
Adds identities and second factors to accounts, each once, so that one that the user has removed does not come back, and
returns how many: {id, owner, provider, issuer, subject, email, createdAt, usedAt} or {id, owner, name, secret,
createdAt}, where `owner` is the public id of the account, and the secret is encrypted, in hex.
$$;

create or replace function auth_private.import_users(entries jsonb[]) returns jsonb
language plpgsql volatile set search_path = '' as $$
declare
  middle constant integer := cardinality(entries) / 2;
  added jsonb[];
  created integer;
  one jsonb;
  other jsonb;
  state text;
  reason text;
  violated_schema text;
  violated_table text;
  violated text;
begin
  if entries[1] ? 'owner' then
    created := auth_private.attach_imported(entries);
    return jsonb_build_object('created', created, 'known', cardinality(entries) - created, 'refused', '[]'::jsonb);
  end if;
  added := array(
    select once.entry || jsonb_build_object(
        'exists', once.entry ->> 'id' is not null and auth_private.is_user((once.entry ->> 'id')::auth.user_id))
    from (
      select distinct on (each -> 'account' -> 'importKey') each as entry
      from unnest(entries) as each
      where not exists (
          select from auth_private.accounts as a
          where a.import_key = (each -> 'account' ->> 'importKey')::uuid)
        and not exists (
          select from auth_private.accounts as a
          where a.public_id = (each -> 'account' ->> 'publicId')::uuid)
    ) as once
    order by (once.entry ->> 'line')::integer);
  perform auth_private.insert_imported(added);
  return jsonb_build_object(
    'created', cardinality(added), 'known', cardinality(entries) - cardinality(added), 'refused', '[]'::jsonb);
exception when others then
  get stacked diagnostics
    state = returned_sqlstate,
    reason = message_text,
    violated_schema = schema_name,
    violated_table = table_name,
    violated = constraint_name;
  -- Not the fault of a row: transactions, resources, an operator, the system, PostgreSQL itself.
  if left(state, 2) in ('40', '53', '57', '58', 'XX') then raise; end if;
  if middle > 0 then
    one := auth_private.import_users(entries[:middle]);
    other := auth_private.import_users(entries[middle + 1:]);
    return jsonb_build_object(
      'created', (one ->> 'created')::integer + (other ->> 'created')::integer,
      'known', (one ->> 'known')::integer + (other ->> 'known')::integer,
      'refused', one -> 'refused' || (other -> 'refused'));
  end if;
  return jsonb_build_object('created', 0, 'known', 0, 'refused', jsonb_build_array(jsonb_build_object(
    'line', entries[1] -> 'line',
    'email', coalesce(entries[1] -> 'fields', entries[1]) -> 'email',
    'reason', coalesce(auth_private.constraint_message(violated_schema, violated_table, violated), reason))));
end $$;

comment on function auth_private.import_users(jsonb[]) is $$
For the command: imports users, of whom those with a known importKey or publicId exist already, or what attach_imported
adds to their accounts: {created, known, refused}, with the line, the e-mail and the reason of each that is refused.
If one of them is refused, each half is tried again, so that the others need no savepoint of their own.
$$;

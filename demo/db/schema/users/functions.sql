create or replace function public.me() returns public.users
language plpgsql stable set search_path = '' as $$
declare caller public.users;
begin
  select * into caller from public.users where id = auth.uid();
  if found then
    caller.email := coalesce(internal.private_email(caller.id, caller.email), caller.email);
    return caller;
  end if;
  raise invalid_authorization_specification using message = 'login required';
end $$;

comment on function public.me() is $$
@notNull
The signed-in caller. Fails with AUTH_REQUIRED if the caller is not signed in.
$$;

create or replace function internal.add_user(fields jsonb) returns public.users
language plpgsql volatile set search_path = '' as $$
declare
  columns constant text := (select string_agg(quote_ident(name), ', ') from jsonb_object_keys(fields) as name);
  given constant text :=
    '(' || columns || ') select ' || columns || ' from jsonb_populate_record(null::public.users, $1)';
  added public.users;
begin
  execute 'insert into public.users ' || coalesce(given, 'default values') || ' returning *' into added using fields;
  return added;
end $$;

comment on function internal.add_user(jsonb) is $$
Inserts a user with these columns; the others get their defaults. It runs with the rights of its caller, so the grants
on the columns decide what a new user may have.
$$;

create or replace function internal.new_user(fields jsonb) returns bigint
language plpgsql volatile set search_path = '' as $$
begin
  perform internal.release_email(fields ->> 'email');
  -- What users say about themselves at /auth/v1 is no column: the account keeps it.
  return (internal.add_user(fields - 'data')).id;
end $$;

comment on function internal.new_user(jsonb) is $$
For sign-up: inserts a user with these columns, and returns the id. A user whom a caller has added without an account
loses the e-mail.
$$;

create or replace function internal.new_email(user_id bigint, email text) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform internal.release_email(new_email.email);
  update public.users as u
  set email = new_email.email
  where u.id = new_email.user_id
    and u.email <> new_email.email;
end $$;

comment on function internal.new_email(bigint, text) is
  'For POST /auth/email and operators: changes the e-mail of a user together with the e-mail of the account.';

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
return internal.add_user(jsonb_strip_nulls(to_jsonb(input)));

comment on function public.create_user(public.users) is $$
@behavior -flatMutationField
Creates a user, for clients of /rest/v1. The createUser of GraphQL inserts into the table instead, which is faster.
$$;

create or replace function public.users_avatar(person public.users, size integer default 80) returns text
language plpgsql immutable set search_path = '' as $$
begin
  size := coalesce(size, 80);
  if size not between 1 and 2048 then
    raise invalid_parameter_value using message = 'size must be from 1 to 2048';
  end if;
  return person.avatar_url
    || case when position('?' in person.avatar_url) > 0 then '&' else '?' end
    || 'size=' || size;
end $$;

comment on function public.users_avatar(public.users, integer) is
  'The URL of the user''s picture, `size` pixels wide; null when the user has none.';

create or replace function internal.user_matches(person public.users, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition uses the trigram index; the others refuse a match that spans two fields.
return internal.user_text(person.name, person.email) ilike internal.substring_pattern(keyword)
  and (
    person.name ilike internal.substring_pattern(keyword)
    or person.email ilike internal.substring_pattern(keyword)
  );

create or replace function internal.is_open_to_editors() returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from pg_auth_members as m
    join pg_roles as login on login.oid = m.member
    where m.roleid = 'users_editor'::regrole
      and login.rolname = session_user
  )
$$;

comment on function internal.is_open_to_editors() is
  'Whether callers without credentials may change and delete every user (USERS_WRITE=open).';

create or replace function internal.protect_account() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  if old.id = auth.uid() and not internal.is_open_to_editors() then
    perform auth.require_recent_sign_in();
  end if;
  return old;
end $$;

comment on function internal.protect_account() is
  'A user who deletes themselves needs a recent sign-in: a stolen token must not delete its owner.';

-- Not for users_editor, the role of callers without credentials: they do not delete their own user.
create or replace trigger _200_protect_account before delete on public.users
  for each row when (current_user <> 'users_editor')
  execute function internal.protect_account();

-- Accounts keep the name of the user, and the e-mail that the account signs in with.
create or replace trigger _300_login_email_insert after insert on public.users
  for each row execute function auth_api.refuse_email('id', 'email', 'users_email_key');
create or replace trigger _300_login_email_update after update of email on public.users
  for each row when (old.email is distinct from new.email)
  execute function auth_api.refuse_email('id', 'email', 'users_email_key');
-- Not while USERS_EMAIL hides the e-mails, or shows them again.
create or replace trigger _600_email after update of email on public.users
  for each row when (
    old.email is distinct from new.email
    and old.email not like 'hidden-%@users.invalid'
    and new.email not like 'hidden-%@users.invalid'
  ) execute function auth_api.follow_email('id', 'email');
create or replace trigger _600_name after update of name on public.users
  for each row when (old.name is distinct from new.name) execute function auth_api.follow_name('id', 'name');

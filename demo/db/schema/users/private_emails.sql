-- With USERS_EMAIL=private, the e-mails of users. public.users then has placeholders, so that no interface, filter,
-- order, aggregate or event can tell an e-mail.
create table if not exists internal.private_emails (
  user_id bigint primary key,
  email   text not null,

  -- Deferred: the e-mail of a new user is stored before the row of the user.
  constraint private_emails_user_id_fkey foreign key (user_id) references public.users on delete cascade
    deferrable initially deferred,
  constraint users_email_format check (auth.is_email(email))
);
-- E-mails are unique regardless of case, as in public.users.
create unique index if not exists users_email_key on internal.private_emails (lower(email));
alter table internal.private_emails enable row level security;

comment on table internal.private_emails is 'With USERS_EMAIL=private, the e-mails of users.';
comment on index internal.users_email_key is 'email already registered';
comment on constraint users_email_format on internal.private_emails is 'email must be a valid address';

create or replace function internal.is_placeholder(email text) returns boolean
language sql immutable parallel safe
return email ~ '^hidden-[0-9]+@users[.]invalid$';

comment on function internal.is_placeholder(text) is 'Whether a text stands in public.users for a private e-mail.';

-- security definer: callers may change e-mails, but may not read private ones.
create or replace function internal.hide_email() returns trigger
language plpgsql volatile security definer set search_path = '' as $$
declare placeholder constant text := format('hidden-%s@users.invalid', new.id);
begin
  if current_setting('internal.shows_emails', true) = 'on' then
    -- The user has not changed.
    new.updated_at := old.updated_at;
  elsif internal.is_placeholder(new.email) and new.email <> placeholder then
    raise check_violation using
      message = 'email must be a valid address',
      schema = 'public',
      table = 'users',
      constraint = 'users_email_format';
  end if;
  -- A client that sends back what it has read changes nothing.
  if new.email = placeholder or auth_api.setting('users_email') is distinct from 'private' then return new; end if;

  insert into internal.private_emails as p (user_id, email)
  values (new.id, new.email)
  on conflict on constraint private_emails_pkey do update
  set email = excluded.email
  where p.email <> excluded.email;
  new.email := placeholder;
  return new;
end $$;

comment on function internal.hide_email() is
  'With USERS_EMAIL=private, stores the e-mail of a user where callers cannot read it, and a placeholder in its place.';

create or replace trigger _200_email before insert or update of email on public.users
  for each row when (new.email is not null) execute function internal.hide_email();

create or replace trigger _300_login_email_insert after insert on internal.private_emails
  for each row execute function auth_api.refuse_email('user_id', 'email', 'users_email_key');
create or replace trigger _300_login_email_update after update on internal.private_emails
  for each row execute function auth_api.refuse_email('user_id', 'email', 'users_email_key');
create or replace trigger _600_email after update on internal.private_emails
  for each row execute function auth_api.follow_email('user_id', 'email');

create or replace function internal.show_emails(are_public boolean) returns void
language plpgsql volatile set search_path = '' as $$
declare
  hiding constant text := (
    select string_agg(quote_ident(policy.polname), ', ' order by policy.polname)
    from pg_policy as policy
    where policy.polrelid = 'public.users'::regclass
      and not policy.polpermissive
      and policy.polcmd in ('*', 'r', 'w')
      and exists (
        select from unnest(policy.polroles) as role
        where role = 0
          or pg_has_role(role, 'usage')));
begin
  -- What a policy hides from this function would stay visible to others.
  if not are_public and hiding is not null then
    raise insufficient_privilege using
      message = format(
        'USERS_EMAIL=private cannot hide all e-mails: the restrictive policy %s on public.users applies to auth_owner',
        hiding),
      hint = 'Name the roles of its callers: alter policy … on public.users to anon, authenticated, service_role;';
  end if;
  if are_public and not exists (select from internal.private_emails) then return; end if;

  perform set_config('internal.shows_emails', 'on', true);
  if are_public then
    update public.users as u
    set email = p.email
    from internal.private_emails as p
    where p.user_id = u.id;
    delete from internal.private_emails;
  else
    update public.users as u
    set email = u.email
    where not internal.is_placeholder(u.email);
  end if;
  perform set_config('internal.shows_emails', '', true);
end $$;

comment on function internal.show_emails(boolean) is
  'For a changed USERS_EMAIL: moves the e-mails of all users to where callers can read them, or cannot.';

-- security definer: the function decides who may read.
create or replace function internal.private_email(user_id bigint, shown text) returns text
language sql stable security definer set search_path = '' as $$
  select coalesce(
    (select p.email from internal.private_emails as p where p.user_id = private_email.user_id),
    shown)
  where private_email.user_id = auth.uid()
    or exists (
      select from pg_roles as r
      -- The role of the caller, in contrast to current_user.
      where r.rolname = current_setting('role')
        and (r.rolbypassrls or pg_has_role(r.oid, 'admin', 'member')))
$$;

comment on function internal.private_email(bigint, text) is
  'The e-mail of a user, which public.users shows in this form; null unless the caller is the user or an operator.';

create or replace function public.users_private_email(person public.users) returns text
language sql stable set search_path = ''
return internal.private_email(person.id, person.email);

comment on function public.users_private_email(public.users) is
  'The e-mail, whatever USERS_EMAIL says; null unless the caller is the user or an administrator.';

revoke all on function
  internal.is_placeholder(text), internal.show_emails(boolean), internal.private_email(bigint, text),
  internal.hide_email()
  from public;
grant execute on function internal.show_emails(boolean) to auth_owner;
grant execute on function internal.is_placeholder(text) to auth_owner;
grant execute on function internal.private_email(bigint, text) to anon, authenticated, service_role;
grant execute on function public.users_private_email(public.users) to anon, authenticated, service_role;

select auth.use_hook('users_email', 'internal.show_emails(boolean)');

-- As auth_owner, which may call the functions of authentication.
do $$
begin
  grant create on schema internal to auth_owner;
  alter table internal.private_emails owner to auth_owner;
  alter function internal.hide_email() owner to auth_owner;
  alter function internal.private_email(bigint, text) owner to auth_owner;
  revoke create on schema internal from auth_owner;
end $$;

-- Users whom callers have added without an account, at POST /users for example. An account may take their e-mail.
create table if not exists internal.added_users (
  user_id bigint primary key references public.users on delete cascade
);
comment on table internal.added_users is
  'Users whom callers, and not operators, have added without an account: their e-mails are not reserved.';
alter table internal.added_users enable row level security;

-- security definer: callers may add users, but may not read which ones.
create or replace function internal.note_added_users() returns trigger
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

  insert into internal.added_users (user_id)
  select a.id
  from added as a;
  if internal.is_open_to_editors() then return null; end if;

  if total > 1 and auth.uid() is null then
    raise insufficient_privilege using message = 'sign in to add several users at once';
  end if;
  perform auth_api.count_added_users(total);
  return null;
end $$;

comment on function internal.note_added_users() is $$
Counts the users that a statement has added like registrations from the network of the caller, unless the caller is an
administrator or bypasses row-level security. Raises 42501 if an anonymous caller adds several. With USERS_WRITE=open
they do not count: every caller may change and delete every user.
$$;

create or replace trigger _400_added_users after insert on public.users
  referencing new table as added
  for each statement execute function internal.note_added_users();

create or replace function internal.release_email(email text) returns void
language sql volatile set search_path = '' as $$
  update public.users as u
  set email = 'released-' || gen_random_uuid() || '@users.invalid'
  where (
      lower(u.email) = lower(release_email.email)
      or u.id = (select p.user_id from internal.private_emails as p where lower(p.email) = lower(release_email.email))
    )
    and exists (select from internal.added_users as a where a.user_id = u.id)
    and not auth_api.has_account(u.id)
$$;

comment on function internal.release_email(text) is $$
Takes an e-mail from a user whom a caller has added without an account, so that a person can sign in with it. The user
keeps everything else: nothing that was prepared for this row gets to the person.
$$;

-- As auth_owner: callers may add users, but may not read who has an account. It may create nothing else here.
do $$
begin
  grant create on schema internal to auth_owner;
  alter table internal.added_users owner to auth_owner;
  alter function internal.note_added_users() owner to auth_owner;
  revoke create on schema internal from auth_owner;
end $$;

-- The text that a keyword search looks through, one field per line.
create or replace function internal.user_text(name text, email text) returns text
language plpgsql immutable parallel safe set search_path = '' as $$
begin
  return name || e'\n' || email;
end $$;

grant execute on function internal.user_text(text, text) to anon, authenticated, users_editor, service_role, auth_owner;

grant usage on schema auth to users_editor;
grant execute on function auth.is_email(text) to users_editor;

create table public.users (
  id         bigint generated always as identity primary key,
  name       text not null,
  email      text not null,
  age        integer,
  avatar_url text,
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now(),

  constraint users_name_length check (internal.has_text(name) and char_length(name) <= 200),
  constraint users_email_format check (auth.is_email(email)),
  constraint users_age_range check (age between 0 and 150),
  constraint users_avatar_url_format check (avatar_url ~ '^https?://[^[:space:]]+$' and char_length(avatar_url) <= 2000)
);

-- E-mails are unique regardless of case; sign-in by e-mail.
create unique index users_email_key on public.users (lower(email));
-- users by keyword.
create index users_search_idx on public.users using gin (internal.user_text(name, email) extensions.gin_trgm_ops);
-- users sorted by name.
create index users_name_id_idx on public.users (name, id);
-- users sorted by the time of sign-up.
create index users_created_at_id_idx on public.users (created_at, id);

-- Runs for every update, even one that changes no value.
create or replace trigger _100_timestamps before update on public.users
  for each row execute function internal.touch();

comment on table public.users is $$
@behavior +query:resource:list
A person who writes articles and comments.
$$;
comment on column public.users.id is 'Assigned by the service, increasing.';
comment on column public.users.name is 'The name shown to others; 1 to 200 characters.';
comment on column public.users.email is 'Unique among users, regardless of case.';
comment on column public.users.age is 'In years, 0 to 150.';
comment on column public.users.avatar_url is E'@behavior -select\nThe URL of a picture, http or https.';
comment on column public.users.created_at is 'When the user signed up.';
comment on column public.users.updated_at is 'When the user was last updated.';

-- The comment of a constraint is the message that a client receives when a value violates it.
comment on index public.users_email_key is 'email already registered';
comment on constraint users_name_length on public.users is 'name must have 1 to 200 characters';
comment on constraint users_email_format on public.users is 'email must be a valid address';
comment on constraint users_age_range on public.users is 'age must be from 0 to 150';
comment on constraint users_avatar_url_format on public.users is 'avatar_url must be an http or https URL';

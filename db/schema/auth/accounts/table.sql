-- How a user signs in. A user without an account can be read but cannot sign in.
create table auth_private.accounts (
  user_id       bigint primary key references public.users on delete cascade,
  username      text, -- null: signs in with the e-mail alone (auth/login_emails)
  password_hash text, -- argon2id, as a PHC string; null: signs in with an identity of a provider alone
  role          text not null default 'authenticated',
  permissions   text[] not null default '{}',
  disabled_at   timestamptz, -- null while the account may sign in
  created_at    timestamptz not null default now(),
  epoch         integer not null default 0, -- tokens and sessions of an earlier epoch are not valid
  -- The look-alike form of the username (rest-gateway/auth/login-names.ts). Null: not computed yet, or another account
  -- already has it.
  username_skeleton text,

  -- Without @, so that a username is never the e-mail of another user. In Basic credentials a colon ends the username.
  constraint accounts_username_format check (username ~ '^[^@:[:space:][:cntrl:]]+$' and char_length(username) <= 100),
  constraint accounts_role_known check (role in ('authenticated', 'admin')),
  constraint accounts_password_hash_format check (password_hash like '$argon2id$%')
);
-- Looking up the account of a login.
create unique index accounts_username_key on auth_private.accounts (lower(username));
-- Two accounts never have usernames that look alike.
create unique index accounts_username_skeleton_key
  on auth_private.accounts (coalesce(username_skeleton, lower(username)));

comment on index auth_private.accounts_username_key is 'username already taken';
comment on index auth_private.accounts_username_skeleton_key is 'username already taken';
comment on constraint accounts_username_format on auth_private.accounts is
  'username must have 1 to 100 characters, without spaces, colons and @; without a username the e-mail is used';

alter table auth_private.accounts owner to auth_owner;
-- Only the owner has grants. Because there are no policies, even a mistaken grant would show no rows.
alter table auth_private.accounts enable row level security;

-- The e-mails that accounts sign in with, and those that accounts have signed in with before: they stay reserved for a
-- time. users.email may differ: every caller who may change a user may change that one.
create table auth_private.login_emails (
  user_id     bigint not null references auth_private.accounts on delete cascade,
  email       text not null, -- users.email or one that it has been, which is well formed
  skeleton    text, -- the e-mail as it looks (rest-gateway/auth/login-names.ts); null: as lower(email)
  released_at timestamptz, -- null while the account signs in with it

  primary key (user_id, email)
);
-- Looking up the account of a login.
create unique index login_emails_email_key on auth_private.login_emails (lower(email));
-- Two accounts never have e-mails that look alike.
create unique index login_emails_skeleton_key on auth_private.login_emails (coalesce(skeleton, lower(email)));
-- An account signs in with one e-mail.
create unique index login_emails_user_id_key on auth_private.login_emails (user_id) where released_at is null;
-- Deleting those whose reservation has ended.
create index login_emails_released_at_idx on auth_private.login_emails (released_at) where released_at is not null;

comment on table auth_private.login_emails is
  'The e-mails that accounts sign in with, and those that are reserved for them.';
comment on index auth_private.login_emails_email_key is 'email already registered';
comment on index auth_private.login_emails_skeleton_key is 'email already registered';

alter table auth_private.login_emails owner to auth_owner;
alter table auth_private.login_emails enable row level security;

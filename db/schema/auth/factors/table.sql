-- The second factor of an account. The service encrypts secrets with a key that is not in this database.
create table auth_private.factors (
  user_id       bigint primary key references auth_private.accounts on delete cascade,
  secret        bytea, -- null until it is enabled
  pending       bytea, -- null unless an enrolment is pending
  pending_until timestamptz,
  enabled_at    timestamptz, -- null until it is enabled
  last_step     bigint not null default 0, -- the last 30 s step whose code was accepted: a code is accepted once

  constraint factors_secret_known check ((secret is null) = (enabled_at is null)),
  constraint factors_pending_known check ((pending is null) = (pending_until is null))
);

-- Codes for users who have lost their app, as keyed hashes; each is valid once.
create table auth_private.backup_codes (
  user_id   bigint not null references auth_private.factors on delete cascade,
  code_hash bytea not null,
  used_at   timestamptz, -- null while it is valid

  primary key (user_id, code_hash),
  constraint backup_codes_code_hash_length check (octet_length(code_hash) = 32)
);

comment on table auth_private.factors is 'The second factor of an account; secrets are encrypted.';
comment on table auth_private.backup_codes is 'Codes in place of a second factor, as keyed hashes.';

alter table auth_private.factors owner to auth_owner;
alter table auth_private.backup_codes owner to auth_owner;
alter table auth_private.factors enable row level security;
alter table auth_private.backup_codes enable row level security;

-- Failed and undecided attempts, such as logins, which limit the guessing of credentials.
create table auth_private.attempts (
  id     bigint generated always as identity primary key,
  key    bytea not null, -- auth_private.attempt_key: a user at an address, an address, a user's second factor
  at     timestamptz not null,
  counts boolean not null default false, -- false until it is decided

  constraint attempts_key_length check (octet_length(key) = 32)
);
-- Attempts within the window.
create index attempts_key_at_idx on auth_private.attempts (key, at);
-- Deleting old attempts.
create index attempts_at_idx on auth_private.attempts (at);

comment on table auth_private.attempts is
  'Attempts that count, such as failed logins, and undecided ones.';

alter table auth_private.attempts owner to auth_owner;
alter table auth_private.attempts enable row level security;

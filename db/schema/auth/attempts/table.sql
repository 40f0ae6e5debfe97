-- Attempts that count, such as logins that have failed, and those that are not decided yet: what throttles guessing.
create table auth_private.attempts (
  id     bigint generated always as identity primary key,
  key    bytea not null, -- SHA-256 of what is counted: a username at an address, an address, a user's second factor
  at     timestamptz not null,
  counts boolean not null default false, -- false until it is decided

  constraint attempts_key_length check (octet_length(key) = 32)
);
-- Attempts within the window.
create index attempts_key_at_idx on auth_private.attempts (key, at);
-- Those that may be forgotten.
create index attempts_at_idx on auth_private.attempts (at);

comment on table auth_private.attempts is 'Attempts that count, such as logins that have failed, and those that are not decided yet.';

alter table auth_private.attempts owner to auth_owner;
alter table auth_private.attempts enable row level security;

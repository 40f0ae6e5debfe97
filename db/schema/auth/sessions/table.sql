-- Sessions by the SHA-256 of their id, one per user.
create table auth_private.sessions (
  id_hash    bytea primary key,
  user_id    bigint not null references auth_private.accounts on delete cascade,
  epoch      integer not null, -- the epoch of the account at sign-in
  started_at timestamptz not null,
  seen_at    timestamptz not null,
  expires_at timestamptz not null, -- the end of its maximum duration

  constraint sessions_id_hash_length check (octet_length(id_hash) = 32)
);
-- A user has at most one session.
create unique index sessions_user_id_key on auth_private.sessions (user_id);

comment on table auth_private.sessions is 'Sessions by the SHA-256 of their id.';

alter table auth_private.sessions owner to auth_owner;
alter table auth_private.sessions enable row level security;

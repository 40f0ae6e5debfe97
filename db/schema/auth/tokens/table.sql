-- One sign-in and its refresh tokens, each of which replaced the one before. Access tokens name the family as `sid`.
create table auth_private.token_families (
  id         uuid primary key default gen_random_uuid(),
  user_id    bigint not null references auth_private.accounts on delete cascade,
  epoch      integer not null, -- the epoch of the account at sign-in
  started_at timestamptz not null default now(),
  revoked_at timestamptz, -- null while it is valid
  kept_at    timestamptz -- when it was moved to a new epoch: its access tokens of the previous epoch stay valid
);
-- Revoking all tokens of a user.
create index token_families_user_id_idx on auth_private.token_families (user_id);
-- The revoked families that a user's access tokens must not name.
create index token_families_revoked_at_idx on auth_private.token_families (user_id, revoked_at)
  where revoked_at is not null;
-- The families whose access tokens may be of an earlier epoch.
create index token_families_kept_at_idx on auth_private.token_families (user_id, kept_at)
  where kept_at is not null;

-- Refresh tokens that were issued, by their SHA-256: a token that is not in this table is not valid.
create table auth_private.refresh_tokens (
  token_hash bytea primary key,
  family_id  uuid not null references auth_private.token_families on delete cascade,
  issued_at  timestamptz not null default now(),
  expires_at timestamptz not null,
  spent_at   timestamptz, -- null until it was used

  constraint refresh_tokens_token_hash_length check (octet_length(token_hash) = 32)
);
-- The tokens of a family.
create index refresh_tokens_family_id_idx on auth_private.refresh_tokens (family_id);
-- Deleting expired tokens.
create index refresh_tokens_expires_at_idx on auth_private.refresh_tokens (expires_at);

-- Challenges of second factors that a login has completed, until they expire.
create table auth_private.spent_challenges (
  id       uuid primary key, -- its jti
  spent_at timestamptz not null
);

comment on table auth_private.token_families is 'One sign-in and its refresh tokens.';
comment on table auth_private.refresh_tokens is 'Refresh tokens that were issued, by their SHA-256.';
comment on table auth_private.spent_challenges is 'Challenges of second factors that a login has completed.';

alter table auth_private.token_families owner to auth_owner;
alter table auth_private.refresh_tokens owner to auth_owner;
alter table auth_private.spent_challenges owner to auth_owner;
alter table auth_private.token_families enable row level security;
alter table auth_private.refresh_tokens enable row level security;
alter table auth_private.spent_challenges enable row level security;

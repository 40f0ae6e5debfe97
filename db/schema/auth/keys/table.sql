-- Keys for programs, by their SHA-256. A user's key identifies the user; anon and service keys identify their role.
create table auth_private.api_keys (
  id           uuid primary key default gen_random_uuid(),
  kind         text not null,
  user_id      bigint references auth_private.accounts on delete cascade,
  name         text not null,
  prefix       text not null, -- the first characters, to recognize the key by
  key_hash     bytea not null,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz, -- null if it never does
  revoked_at   timestamptz, -- null while it is valid
  last_used_at timestamptz, -- to the minute

  constraint api_keys_kind_known check (kind in ('user', 'anon', 'service')),
  constraint api_keys_user_id_known check ((kind = 'user') = (user_id is not null)),
  constraint api_keys_name_length check (name ~ '\S' and char_length(name) <= 100),
  constraint api_keys_key_hash_length check (octet_length(key_hash) = 32)
);
-- Looking up the key of a request.
create unique index api_keys_key_hash_key on auth_private.api_keys (key_hash);
-- The keys of a user, newest first.
create index api_keys_user_id_created_at_idx on auth_private.api_keys (user_id, created_at desc);

comment on table auth_private.api_keys is 'Keys for programs, by their SHA-256.';
comment on constraint api_keys_name_length on auth_private.api_keys is 'name must have 1 to 100 characters';

alter table auth_private.api_keys owner to auth_owner;
alter table auth_private.api_keys enable row level security;

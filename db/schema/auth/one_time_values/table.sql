-- What may be used once: sign-ins at a provider that have begun, sign-in codes, SAML assertions.
create table auth_private.one_time_values (
  kind       text not null, -- rest-gateway/auth/federated/identity-repository.ts lists them
  key        bytea not null, -- SHA-256 of what the client or the provider must send
  data       jsonb not null default '{}',
  expires_at timestamptz not null,

  primary key (kind, key),
  constraint one_time_values_key_length check (octet_length(key) = 32)
);
-- Deleting expired values.
create index one_time_values_expires_at_idx on auth_private.one_time_values (expires_at);

comment on table auth_private.one_time_values is 'What may be used once, by the SHA-256 of its secret.';

alter table auth_private.one_time_values owner to auth_owner;
alter table auth_private.one_time_values enable row level security;

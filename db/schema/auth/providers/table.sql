-- Identity providers beside those of the file AUTH_PROVIDERS. The owner of the database writes this table; the service
-- follows its changes.
create table auth_private.providers (
  name       text primary key, -- in the URLs of the provider: /auth/oidc/<name>
  definition jsonb not null, -- an entry of the file without its name; docs/federated-sign-in.md

  constraint providers_name_format check (name ~ '^[a-z0-9][a-z0-9-]{0,49}$'),
  constraint providers_definition_object check (jsonb_typeof(definition) = 'object'),
  constraint providers_secrets_elsewhere check (
    jsonb_typeof(coalesce(definition -> 'clientSecret', '{}')) = 'object'
    and definition::text not like '%PRIVATE KEY%')
);

comment on table auth_private.providers is
  'Identity providers beside those of the file AUTH_PROVIDERS, in the same format.';
comment on constraint providers_secrets_elsewhere on auth_private.providers is
  'a secret is not stored here: name an environment variable, {"env": "AUTH_SECRET_…"}';

alter table auth_private.providers owner to auth_owner;
alter table auth_private.providers enable row level security;

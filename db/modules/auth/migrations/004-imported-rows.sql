-- Identities and second factors are imported once, as accounts are.
alter table auth_private.accounts add column imported uuid[] not null default '{}';

create schema auth;
comment on schema auth is 'The caller: auth.uid(), auth.claims(), auth.is_admin().';

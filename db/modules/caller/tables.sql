create schema auth;
comment on schema auth is 'The caller: auth.uid(), auth.claims(), auth.is_admin().';

-- The type of the ids of users, which is chosen at installation (AUTH_USER_ID).
do $$
begin
  execute format('create domain auth.user_id as %s', current_setting('content_service.user_id'));
end $$;
comment on domain auth.user_id is 'The id of a user.';

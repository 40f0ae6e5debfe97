-- Accounts belong to users, and sign-up creates users.
select auth.use_users('public.users');
select auth.use_hook('new_user', 'internal.new_user(jsonb)');
select auth.use_hook('new_email', 'internal.new_email(bigint, text)');

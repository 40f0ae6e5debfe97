-- Usernames are compared in NFKC and lower case, and no skeletons are stored.
do $$
declare old regprocedure;
begin
  for old in
    select p.oid
    from pg_proc as p
    where p.pronamespace in ('auth'::regnamespace, 'auth_api'::regnamespace, 'auth_private'::regnamespace)
      and exists (select from unnest(p.proargnames) as n (name) where n.name ~ 'skeleton$')
  loop
    execute format('drop function %s', old);
  end loop;
end $$;
alter table auth_private.accounts drop column username_skeleton;
alter table auth_private.login_emails drop column skeleton;

-- Usernames that SQL has written in another form. One whose NFKC form another account has too stays as it is, and signs
-- in as it is written.
do $$
declare kept text;
begin
  if current_setting('server_encoding') <> 'UTF8' then return; end if;
  update auth_private.accounts as a
  set username = normalize(a.username, nfkc)
  where a.username <> normalize(a.username, nfkc)
    and normalize(a.username, nfkc) ~ '^[^@:[:space:][:cntrl:]]+$'
    and char_length(normalize(a.username, nfkc)) <= 100
    and not exists (
      select from auth_private.accounts as b
      where b.user_id <> a.user_id
        and lower(normalize(b.username, nfkc)) = lower(normalize(a.username, nfkc)));
  select string_agg(a.user_id::text || ' (' || a.username || ')', ', ' order by a.user_id)
  into kept
  from auth_private.accounts as a
  where a.username <> normalize(a.username, nfkc);
  if kept is not null then
    raise warning 'usernames stay as they are, because another account has their NFKC form or it is not valid: %', kept
      using hint = 'These accounts sign in as before. To change one: update auth_private.accounts set username = ...';
  end if;
end $$;

do $$
declare
  ada constant uuid := gen_random_uuid();
  bob constant uuid := gen_random_uuid();
  admin constant uuid := gen_random_uuid();
begin
  if exists (select from public.notes) then return; end if;
  perform auth.add_account(ada::text::auth.user_id, 'Ada', 'ada@example.com', 'ada');
  perform auth.add_account(bob::text::auth.user_id, 'Bob', 'bob@example.com', 'bob');
  perform auth.add_account(admin::text::auth.user_id, 'Admin', 'admin@example.com', 'admin', role => 'admin');
  insert into public.notes (author_id, text, is_published) values
    (ada, 'A draft', false), (ada, 'A shared draft', false), (ada, 'A note', true),
    (bob, 'A draft', false), (bob, 'A note', true), (admin, 'A draft', false);
  insert into public.shares (note_id, user_id, owner_id) values (2, bob, ada), (4, admin, bob);
end $$;

-- Data for development, inserted once into the embedded database. The password of ada and bob is Correct-Horse-7!
do $$
declare
  ada constant uuid := '00000000-0000-4000-8000-000000000001';
  bob constant uuid := '00000000-0000-4000-8000-000000000002';
  password constant text :=
    '$argon2id$v=19$m=12288,t=3,p=1$v9hS8U4aXuhMDS5bx9fV7g$rJ3ZbOIvnrTSLQHUGfchM+eOYGhtyBxJp7rT4YPRhlY';
begin
  if auth.has_account(ada) then return; end if;

  insert into public.users (id, name) values (ada, 'Ada Lovelace'), (bob, 'Bob Kahn');
  perform auth.add_account(ada, 'Ada Lovelace', 'ada@example.com', 'ada', password);
  perform auth.add_account(bob, 'Bob Kahn', 'bob@example.com', 'bob', password);

  insert into public.notes (author_id, text) values
    (ada, 'The engine weaves algebraical patterns'),
    (ada, 'Buy punched cards'),
    (bob, 'Call the operator');
end $$;

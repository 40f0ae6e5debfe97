-- Data for development, inserted once into the embedded database. The password of ada and bob is Correct-Horse-7!
do $$
declare
  ada constant uuid := '00000000-0000-4000-8000-000000000001';
  bob constant uuid := '00000000-0000-4000-8000-000000000002';
  password constant text :=
    '$argon2id$v=19$m=19456,t=2,p=1$Hn2Kkgoh1wCB1BxgFs6QRg$809Ron1c97l7cfN9iCxtVb2RdIjtgScVsQPf6E2jmtE';
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

-- Demo data, inserted once (SEED=demo).
-- Every account has the password Correct-Horse-7! and the e-mail <name>@example.com.
do $$
declare
  password constant text := '$argon2id$v=19$m=12288,t=3,p=1$v9hS8U4aXuhMDS5bx9fV7g$rJ3ZbOIvnrTSLQHUGfchM+eOYGhtyBxJp7rT4YPRhlY';
  ada bigint;
  bob bigint;
  admin bigint;
  carol bigint;
  first_article bigint;
  second_article bigint;
begin
  insert into internal.seeds (name) values ('demo') on conflict do nothing;
  if not found then return; end if;

  insert into public.users (name, email, age) values ('Ada Lovelace', 'ada@example.com', 36) returning id into ada;
  insert into public.users (name, email, age) values ('Bob Kahn', 'bob@example.com', 41) returning id into bob;
  insert into public.users (name, email) values ('Administrator', 'admin@example.com') returning id into admin;
  insert into public.users (name, email) values ('Carol Shaw', 'carol@example.com') returning id into carol;

  perform auth.add_account(ada, 'Ada Lovelace', 'ada@example.com', 'ada', password);
  perform auth.add_account(bob, 'Bob Kahn', 'bob@example.com', 'bob', password);
  perform auth.add_account(admin, 'Administrator', 'admin@example.com', 'admin', password, role => 'admin');
  perform auth.add_account(carol, 'Carol Shaw', 'carol@example.com', 'carol', password, disabled_at => now());

  insert into public.articles (author_id, title, content, status, tags, created_at) values
    (ada, 'Notes on the Analytical Engine',
     'The engine weaves algebraical patterns just as the loom weaves flowers and leaves.',
     'PUBLISHED', '{engines,history}', now() - interval '3 days')
  returning id into first_article;
  insert into public.articles (author_id, title, content, status, tags, created_at) values
    (bob, 'How packets find their way',
     'A message is cut into packets, and each packet is sent along whatever road is free.',
     'PUBLISHED', '{networks,history}', now() - interval '2 days')
  returning id into second_article;
  insert into public.articles (author_id, title, content, status, tags, created_at) values
    (ada, 'Computing Bernoulli numbers',
     'A table of the operations, one line for each step.',
     'DRAFT', '{engines,numbers}', now() - interval '1 day'),
    (bob, 'A protocol we gave up',
     'It worked, but nobody could explain it.',
     'ARCHIVED', '{networks}', now() - interval '10 days');

  insert into public.article_translations (article_id, language, title) values
    (first_article, 'de', 'Anmerkungen zur Analytischen Maschine'),
    (second_article, 'de', 'Wie Pakete ihren Weg finden');

  insert into public.comments (article_id, author_id, content, created_at) values
    (first_article, bob, 'The loom is a fine picture.', now() - interval '2 days'),
    (first_article, admin, 'Moved to the front page.', now() - interval '1 day'),
    (second_article, ada, 'And if a packet is lost?', now() - interval '1 day');
end $$;

-- The fixtures of the tests of reads: a small library.
create schema library;
set search_path = library, public;

create table countries (
  code text primary key,
  name text not null
);
insert into countries values ('GB', 'United Kingdom'), ('US', 'United States'), ('FR', 'France');

create type address as (street text, city text);

create table authors (
  id           int primary key,
  name         text not null unique,
  country_code text references countries on delete restrict,
  born         date,
  home         address
);
insert into authors values
  (1, 'Ada Byron', 'GB', '1815-12-10', row('St James''s Square', 'London')),
  (2, 'Jules Verne', 'FR', '1828-02-08', row('Rue Charles-Dubois', 'Amiens')),
  (3, 'Mary Shelley', 'GB', '1797-08-30', null),
  (4, 'Anonymous', null, null, null);

create type shelf as enum ('fiction', 'science', 'poetry');

-- Two foreign keys to authors.
create table books (
  id            int primary key,
  title         text not null,
  author_id     int not null references authors on delete restrict,
  translator_id int references authors on delete restrict,
  shelf         shelf not null,
  pages         int,
  price         numeric(8, 2),
  tags          text[] not null default '{}',
  lent          daterange,
  facts         jsonb not null default '{}',
  notes         json,
  words         tsvector generated always as (to_tsvector('english', title)) stored,
  is_rare       boolean
);
insert into books (id, title, author_id, translator_id, shelf, pages, price, tags, lent, facts, notes, is_rare) values
  (1, 'Notes on the Engine', 1, null, 'science', 66, 12.50, '{math,machine}', '[2024-01-01,2024-02-01)',
   '{"isbn": "A-1", "sizes": [10, 20, 30], "print": {"city": "London", "year": 1843}}', '{"seen": true}', true),
  (2, 'Twenty Thousand Leagues', 2, 1, 'fiction', 400, 9.99, '{sea,machine}', '[2024-02-01,2024-03-01)',
   '{"isbn": "B-2", "sizes": [40], "print": {"city": "Paris", "year": 1870}}', null, false),
  (3, 'Around the World, in Eighty Days', 2, 1, 'fiction', 250, 7.00, '{travel}', null,
   '{"isbn": "C-3", "print": {"city": "Paris", "year": 1872}}', null, false),
  (4, 'Frankenstein', 3, null, 'fiction', 280, 11.00, '{monster}', '[2024-03-05,2024-04-01)',
   '{"isbn": null, "print": null}', '{"seen": false}', null),
  (5, 'The Last Man', 3, null, 'fiction', null, null, '{}', null, '{}', null, null);

-- One to one.
create table covers (
  book_id int primary key references books on delete cascade,
  colour  text not null
);
insert into covers values (1, 'green'), (2, 'blue'), (4, 'black');

create table genres (
  id   int primary key,
  name text not null
);
insert into genres values (1, 'Novel'), (2, 'Adventure'), (3, 'Essay');

-- Many to many.
create table book_genres (
  book_id  int references books on delete cascade,
  genre_id int references genres on delete cascade,
  weight   int not null default 1,
  primary key (book_id, genre_id)
);
insert into book_genres values (1, 3, 5), (2, 1, 3), (2, 2, 9), (3, 2, 4), (4, 1, 7);

-- Keys of two columns.
create table editions (
  book_id int references books on delete cascade,
  number  int,
  year    int not null,
  primary key (book_id, number)
);
insert into editions values (2, 1, 1870), (2, 2, 1871), (4, 1, 1818);
create table copies (
  id      int primary key,
  book_id int not null,
  edition int not null,
  room    text not null,
  foreign key (book_id, edition) references editions on delete cascade
);
insert into copies values (1, 2, 1, 'A'), (2, 2, 1, 'B'), (3, 2, 2, 'A'), (4, 4, 1, 'C');

-- A foreign key to the same table.
create table staff (
  id      int primary key,
  name    text not null,
  boss_id int references staff on delete restrict
);
insert into staff values (1, 'Head', null), (2, 'Clerk', 1), (3, 'Porter', 1), (4, 'Trainee', 2);

create table loans (
  id      int,
  day     date,
  book_id int not null references books on delete cascade,
  staff_id int references staff on delete restrict,
  primary key (id, day)
) partition by range (day);
create table loans_2023 partition of loans for values from ('2023-01-01') to ('2024-01-01');
create table loans_2024 partition of loans for values from ('2024-01-01') to ('2025-01-01');
insert into loans values (1, '2023-05-01', 1, 2), (2, '2024-05-02', 2, 2), (3, '2024-05-03', 2, 3), (4, '2024-05-04', 4, null);

create view novels as select id, title, author_id, pages from books where shelf = 'fiction';
create view short_novels as select id, title as name, author_id as writer from novels where pages < 300;
create view writers as select id, name, country_code from authors;
create view shelves as select shelf, count(*) as books from books group by shelf;

create table "odd names" (
  "the id"   int primary key,
  "a,b"      text,
  "c.d"      text,
  "über (x)" text,
  "select"   text,
  "or"       text,
  "and"      int
);
insert into "odd names" values (1, 'comma', 'dot', 'brackets', 'word', 'either', 7), (2, 'a,b', 'c.d', null, '', 'or', 8);

-- Computed fields and relations.
create function long_title(books) returns text stable language sql
  return $1.title || ' (' || coalesce($1.pages, 0) || ')';
create function print(books) returns jsonb immutable language sql return $1.facts -> 'print';
create function fellow_books(authors) returns setof books stable language sql
begin atomic; select b.* from books b where b.author_id = $1.id order by b.id; end;
create function first_book(authors) returns setof books stable rows 1 language sql
begin atomic; select b.* from books b where b.author_id = $1.id order by b.id limit 1; end;
create function books_by(writer int) returns setof books stable language sql
begin atomic; select b.* from books b where b.author_id = writer order by b.id; end;

create table hidden (id int primary key);

grant usage on schema library to anon, authenticated;
grant select on all tables in schema library to anon, authenticated;
grant execute on all functions in schema library to anon, authenticated;
revoke all on hidden from anon, authenticated;
grant insert, update, delete on genres, book_genres, novels to anon;
reset search_path;

-- The schema that both servers serve: an example of every kind of object.
create schema cinema;
create schema archive;
create schema vault;
set search_path = cinema, public;

-- Types.
create type certificate as enum ('U', 'PG', 'R');
create type address as (street text, city text);
create domain email as text check (value like '%@%');
create domain short as varchar(5);

create table countries (
  code char(2) primary key,
  name text not null unique
);
insert into countries values ('DE', 'Germany'), ('FR', 'France'), ('JP', 'Japan'), ('US', 'United States');

create table people (
  id           int primary key,
  name         text not null unique,
  born         date,
  country_code char(2) references countries,
  home         address,
  mail         email
);
comment on table people is 'Those who make films';
insert into people values
  (1, 'Fritz Lang', '1890-12-05', 'DE', row('Alleegasse 1', 'Wien'), 'fritz@example.com'),
  (2, 'Thea von Harbou', '1888-12-27', 'DE', null, null),
  (3, 'Akira Kurosawa', '1910-03-23', 'JP', row('Ōimachi', 'Tokyo'), 'akira@example.com'),
  (4, 'Toshiro Mifune', '1920-04-01', 'JP', null, null),
  (5, 'Agnès Varda', '1928-05-30', 'FR', row('Rue Daguerre', 'Paris'), null),
  (6, 'O''Nobody, "Jr."', null, null, null, null);

create table studios (
  id      int primary key,
  name    text not null,
  founded smallint
);
insert into studios values (1, 'UFA', 1917), (2, 'Toho', 1932), (3, 'Ciné-Tamaris', 1954);

create table films (
  id          int primary key default 100,
  title       text not null,
  year        smallint check (year > 1880),
  gross       bigint,
  budget      numeric(14, 2) default 1000.50,
  score       double precision,
  weight      real,
  is_colour   boolean default false,
  released    date,
  premiered   timestamptz,
  local_start timestamp,
  starts      time,
  runtime     interval,
  rated       certificate default 'U',
  tags        text[] default '{}',
  marks       int[],
  data        jsonb,
  notes       json,
  shown       daterange,
  seats       int4range,
  words       tsvector generated always as (to_tsvector('english', title)) stored,
  uid         uuid,
  poster      bytea,
  spot        point,
  host        inet,
  flags       bit(4),
  code        short,
  director_id int references people,
  writer_id   int references people,
  studio_id   int references studios,
  sequel_of   int references films,
  constraint films_title_year_key unique (title, year)
);
insert into films (id, title, year, gross, budget, score, weight, is_colour, released, premiered, local_start, starts,
  runtime, rated, tags, marks, data, notes, shown, seats, uid, poster, spot, host, flags, code,
  director_id, writer_id, studio_id, sequel_of) values
  (1, 'Metropolis', 1927, 75000, 5100000.00, 8.3, 1.5, false, '1927-01-10', '1927-01-10 20:15:00+01', '1927-01-10 20:15',
   '20:15', '2 hours 33 minutes', 'U', '{silent,robot}', '{9,8,10}',
   '{"lang": "de", "cast": {"size": 37, "lead": "Brigitte Helm"}, "parts": [1, 2, 3], "ok": true, "none": null}',
   '{"b": 1, "a": [1, 2]}', '[1927-01-10,1927-05-13)', '[1,500)', '00000000-0000-4000-8000-000000000001', '\x4d6574726f',
   '(52.5,13.4)', '10.0.0.1', b'1010', 'METRO', 1, 2, 1, null),
  (2, 'M', 1931, null, 1300000.00, 8.3, 2, false, '1931-05-11', '1931-05-11 19:00:00+01', null, '19:00', '1 hour 57 minutes',
   'R', '{crime}', '{10,null,7}', '{"lang": "de", "cast": {"size": 21}, "parts": []}', null, '[1931-05-11,1931-08-01)',
   '[500,800]', '00000000-0000-4000-8000-000000000002', null, null, null, null, 'M', 1, 2, null, null),
  (3, 'Seven Samurai', 1954, 271841, 125000000.00, 8.6, 3.25, false, '1954-04-26', '1954-04-26 10:00:00Z',
   '1954-04-26 19:00', '19:00', '3 hours 27 minutes', 'PG', '{samurai,village}', '{10,10}',
   '{"lang": "ja", "cast": {"size": 64, "lead": "Toshiro Mifune"}, "parts": [1, 2], "ok": false}', '[1,"two"]',
   '[1954-04-26,)', 'empty', '00000000-0000-4000-8000-000000000003', null, '(35.6,139.7)', '::1', b'0001', null, 3, 3, 2, null),
  (4, 'Yojimbo', 1961, null, null, 8.2, null, false, '1961-04-25', null, null, null, null, null, '{samurai}', null, null, null,
   null, null, null, null, null, null, null, null, 3, 3, 2, null),
  (5, 'Sanjuro', 1962, null, null, 8.0, null, false, '1962-01-01', null, null, null, null, null, '{samurai,"a, b","c\"d"}', '{}',
   '[1, {"x": "y"}]', '"text"', null, null, null, null, null, null, null, null, 3, 3, 2, 4),
  (6, 'Cléo from 5 to 7', 1962, 46000, 64000.00, 7.9, 1, true, '1962-04-11', null, null, '17:00', '1 hour 30 minutes', 'PG',
   '{paris,"new wave"}', '{7}', '{"lang": "fr", "key with space": 1, "a->b": 2}', null, null, null, null, null, null, null,
   null, 'CLÉO', 5, 5, 3, null);
comment on column films.title is 'As it was first shown';

-- One to one.
create table posters (
  film_id int primary key references films on delete cascade,
  colour  text not null,
  width   int
);
insert into posters values (1, 'gold', 30), (3, 'red', 40), (6, 'blue', null);

-- Many to many, with a column in the junction.
create table roles (
  film_id   int references films on delete cascade,
  person_id int references people,
  part      text,
  primary key (film_id, person_id)
);
insert into roles values (3, 4, 'Kikuchiyo'), (4, 4, 'Sanjuro'), (5, 4, 'Sanjuro'), (6, 5, 'herself');

-- Two junctions between the same tables.
create table prizes (
  id   int primary key,
  name text not null
);
create table nominations (film_id int references films, prize_id int references prizes, primary key (film_id, prize_id));
create table wins (film_id int references films, prize_id int references prizes, primary key (film_id, prize_id));
insert into prizes values (1, 'Silver Lion'), (2, 'Golden Palm');
insert into nominations values (3, 1), (6, 2);
insert into wins values (3, 1);

-- Composite keys.
create table houses (id int primary key, name text not null);
create table screens (
  house_id int references houses,
  number   int,
  seats    int not null,
  primary key (house_id, number)
);
create table shows (
  id            int primary key,
  house_id      int not null,
  screen_number int not null,
  film_id       int references films on delete restrict,
  starts_at     timestamptz,
  price         numeric(6, 2),
  foreign key (house_id, screen_number) references screens (house_id, number)
);
insert into houses values (1, 'Odeon'), (2, 'Lumière');
insert into screens values (1, 1, 300), (1, 2, 80), (2, 1, 50);
insert into shows values
  (1, 1, 1, 1, '2024-05-01 18:00+00', 9.50), (2, 1, 1, 3, '2024-05-01 20:30+00', 12.00),
  (3, 1, 2, 6, '2024-05-02 18:00+00', 9.50), (4, 2, 1, 6, '2024-05-02 20:00+00', 7.25), (5, 2, 1, null, null, null);

-- Partitions.
create table visits (
  day     date,
  show_id int references shows,
  people  int,
  primary key (day, show_id)
) partition by range (day);
create table visits_early partition of visits for values from ('2024-01-01') to ('2024-05-02');
create table visits_late partition of visits for values from ('2024-05-02') to ('2025-01-01');
insert into visits values ('2024-05-01', 1, 120), ('2024-05-01', 2, 240), ('2024-05-02', 3, 33), ('2024-05-02', 4, 20);

-- Enough rows for pages, limits and estimates.
create table numbers (
  n      int primary key,
  parity text not null
);
insert into numbers select n, case n % 2 when 0 then 'even' else 'odd' end from generate_series(1, 150) as n;

-- Tables with only a key, without a key, and with defaults.
create table tags (name text primary key);
create table nothing_but (word text, amount int);
create table moments (id int primary key, made timestamptz not null default '2020-02-02 12:00+00', word text default 'hello', amount int);
insert into tags values ('red'), ('green');
insert into nothing_but values ('x', 1), ('x', 2), ('y', null);
insert into moments values (1, '2021-06-01 10:00+00', 'one', 1), (2, '2021-06-02 10:00+00', 'two', 2);

-- Names that need quotes.
create table "Odd Table" (
  "the id"     int primary key,
  "select"     text,
  "a.b"        text,
  "x,y"        text,
  "it's"       text,
  "quo""ted"   text,
  "(paren)"    text,
  "größe"      int,
  "camelCase"  text,
  "limit"      int,
  film_id      int references films
);
insert into "Odd Table" values (1, 'from', 'dot', 'comma', 'apostrophe', 'quote', 'bracket', 42, 'hump', 7, 1), (2, null, null, null, null, null, null, null, null, null, null);

-- Views.
create view titles as select id, title, director_id, studio_id from films;
create view directors as select p.id, p.name, count(f.id) as films from people as p join films as f on f.director_id = p.id group by p.id;
create view colour_films as select * from films where is_colour with check option;
create materialized view film_years as select year, count(*) as films from films group by year;
create view announcements as select id, title from films;

create view long_titles as select id as film, title as name, director_id as maker from titles;
create view mail_list (address, country) as select mail, country_code from people where mail is not null;

-- A junction between rows of one table, and a domain with casts.
create table lessons (mentor int references people, pupil int references people, primary key (mentor, pupil));
insert into lessons values (1, 2), (3, 4);
create domain colour as int;
create function to_json(colour) returns json immutable language sql as $$ select to_json('#' || lpad(to_hex($1), 6, '0')) $$;
create function colour(json) returns colour immutable language sql as $$ select colour($1 #>> '{}') $$;
create function colour(text) returns colour immutable language sql as $$ select (('x' || lpad(ltrim($1, '#'), 8, '0'))::bit(32)::int)::colour $$;
create cast (colour as json) with function to_json(colour) as implicit;
create cast (json as colour) with function colour(json) as implicit;
create cast (text as colour) with function colour(text) as implicit;
create table paints (id int primary key, tone colour);
insert into paints values (1, 16711680), (2, 255), (3, null);

-- Row-level security.
create table diaries (
  id    int primary key,
  owner text not null default current_setting('request.jwt.claims', true)::json ->> 'sub',
  note  text
);
alter table diaries enable row level security;
create policy "own diaries" on diaries to authenticated
  using (owner = current_setting('request.jwt.claims', true)::json ->> 'sub');
insert into diaries values (1, '1', 'ada writes'), (2, '2', 'bob writes'), (3, '1', 'ada again');

-- Computed fields and relations.
create function headline(films) returns text stable language sql as $$ select upper($1.title) || ' (' || $1.year || ')' $$;
create function sequels(films) returns setof films stable language sql as $$ select * from cinema.films where sequel_of = $1.id $$;
create function star(films) returns setof people rows 1 stable language sql as $$ select p.* from cinema.people as p join cinema.roles as r on r.person_id = p.id where r.film_id = $1.id $$;

-- Functions.
create function add_them(a int, b int) returns int immutable language sql as $$ select a + b $$;
create function fails() returns void language plpgsql as $$ begin raise exception 'it fails' using detail = 'in detail', hint = 'do not call it'; end $$;
create function nothing() returns void language sql as $$ $$;
create function films_of(director int) returns setof films stable language sql as $$ select * from cinema.films where director_id = director order by id $$;
create function some_numbers(upto int) returns setof int immutable language sql as $$ select generate_series(1, upto) $$;
create function longest(words text[]) returns text immutable language sql as $$ select w from unnest(words) as w order by length(w) desc limit 1 $$;
create function echo_json(json) returns json immutable language sql as $$ select $1 $$;
create function named_json(doc json) returns json immutable language sql as $$ select doc $$;
create function rated(c certificate) returns certificate immutable language sql as $$ select c $$;
create function who() returns json stable language sql as $$ select json_build_object('role', current_user, 'sub', nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub', 'method', current_setting('request.method', true), 'custom', current_setting('request.headers', true)::json ->> 'x-custom', 'cookie', current_setting('request.cookies', true)::json ->> 'taste', 'tenant', current_setting('app.settings.tenant', true)) $$;
create function "Odd Name"("the arg" int) returns int immutable language sql as $$ select $1 $$;

create domain "image/png" as bytea;
create function picture() returns "image/png" stable language sql as $$ select '\x89504e47'::"image/png" $$;
create domain "text/tab-separated-values" as text;
create function add_line(text, tags) returns "text/tab-separated-values" immutable language sql as $$ select ($1 || $2.name || E'\n')::"text/tab-separated-values" $$;
create aggregate lines_of(tags) (sfunc = add_line, stype = "text/tab-separated-values", initcond = '');
create domain "text/x-rows" as text;
create function add_row("text/x-rows", anyelement) returns "text/x-rows" immutable language sql as $$ select ($1 || to_jsonb($2)::text || ';')::"text/x-rows" $$;
create aggregate rows_of(anyelement) (sfunc = add_row, stype = "text/x-rows", initcond = '');
create domain "*/*" as bytea;
create table letters (letter text primary key);
insert into letters values ('a'), ('b');
create function add_letter("*/*", letters) returns "*/*" immutable language sql as $$ select ($1 || convert_to($2.letter, 'utf8'))::"*/*" $$;
create aggregate letters_of(letters) (sfunc = add_letter, stype = "*/*", initcond = '');

-- The second schema has a table with the same name, and a table that refers to the first schema.
create table archive.films (id int primary key, title text, former_id int references cinema.films);
insert into archive.films values (1, 'Metropolis, cut', 1), (2, 'Lost', null);
create function archive.where_am_i() returns text stable language sql as $$ select current_setting('search_path') $$;
-- The third schema is not served.
create table vault.reels (id int primary key, film_id int references cinema.films);

grant usage on schema cinema, archive to anon, authenticated;
grant select, insert, update, delete on all tables in schema cinema, archive to anon, authenticated;
grant execute on all functions in schema cinema, archive to anon, authenticated;
revoke all on diaries from anon, authenticated;
grant select, insert, update, delete on diaries to authenticated;
reset search_path;
analyze;

-- The objects of the zoo. `cages`, with a column for each type of values.ts, is added by zoo.ts.
set search_path = public, extensions;
create extension citext schema extensions;
create extension hstore schema extensions;
create extension ltree schema extensions;
create extension cube schema extensions;

create type mood as enum ('sad', 'true', 'null', 'a-b', 'false', 'a b', 'happy "ish"', '', '1');
create domain positive as int check (value > 0);
create domain word as text not null default 'w' check (value <> '-');
create domain labels as text[];
create domain moment as timestamptz;
create domain settings as hstore;
create type spot_row as (x int, label text);
create domain spot as spot_row check ((value).x > 0);
create type part as (x int, y numeric, label text, tags text[], at timestamptz, mood mood, z float8);
create type nested as (spots spot_row[], spot spot_row, span int4range, doc jsonb, at timetz);

-- Without a key, with rows of nothing but null.
create table blanks (a int, b text);
insert into blanks values (null, null), (1, 'ok'), (null, null), (2, null);
create view recent_blanks as select b, a from blanks;
create table hidden_blanks (name text, secret text);
insert into hidden_blanks values ('a', 'b'), (null, null);
create table gauges (id int primary key, spans spot_row[] not null default '{}', span spot_row);
insert into gauges values (1, array[row(1, 'a'), row(null, null), null]::spot_row[], row(null, null)), (2, '{}', null);
alter table gauges enable row level security;
create policy every_row on gauges using (true);
create table readings (id int primary key, value float8 not null, list float8[] not null);
insert into readings values (1, 'NaN', '{Infinity}'), (2, 'Infinity', '{}'), (3, '-Infinity', '{-Infinity}'), (4, 1.5, '{NaN,0,NULL}');
create table grids (id int primary key, words text[], days date[], docs jsonb[], spans spot_row[], ranges int4range[], moods mood[], labels labels, ids uuid[], lasts interval[], keys hstore[]);
insert into grids values
  (1, '{a}', '{2026-11-20}', array['{}'::jsonb], array[row(1, 'a')::spot_row], '{"[1,5)"}', '{sad}', '{a}', array[gen_random_uuid()], '{1 day}', array['a=>1'::hstore]),
  (2, '{{a}}', '{{2026-11-20}}', array[['{}'::jsonb]], array[[row(1, 'a')::spot_row]], '{{"[1,5)"}}', '{{sad}}', '{{a}}', array[[gen_random_uuid()]], '[0:0][1:1]={{1 day}}', array[['a=>1'::hstore]]);

create table animals (id int primary key, name text);
create table dogs (breed text, primary key (id)) inherits (animals);
insert into animals values (1, 'cat');
insert into dogs values (2, 'rex', 'pug');
create table logs (id int, region text, note text, primary key (id, region)) partition by list (region);
create table logs_eu partition of logs for values in ('eu');
create table logs_other partition of logs default;
insert into logs values (1, 'eu', 'a'), (2, 'us', null);

create table depots (id int primary key, city text not null);
create table trucks (id int primary key, depot_id int references depots);
create index on trucks (depot_id);
insert into depots values (1, 'Oslo');
insert into trucks values (1, 1), (2, null);
create table yards (id int primary key, main depots, others depots[] not null);
insert into yards values (1, row(7, 'Rome'), array[row(8, null), null]::depots[]), (2, null, '{}');
create view left_boards as select t.id, d.id as depot_id, d.city from trucks t left join depots d on d.id = t.depot_id;
create view right_boards as select t.id, d.id as depot_id, d.city from depots d right join trucks t on d.id = t.depot_id;
create view full_boards as select t.id, d.id as depot_id, d.city from trucks t full join depots d on d.id = t.depot_id;
create view nested_boards as select t.id, b.depot_id from trucks t left join (depots d join left_boards b on b.depot_id = d.id) on d.id = t.depot_id;
create view inner_boards as select t.id, d.id as depot_id, d.city from trucks t join depots d on d.id = t.depot_id;
create view seen_boards as select id, depot_id from left_boards;
create rule add as on insert to left_boards do instead
  insert into trucks values (new.id, new.depot_id) returning id, depot_id, null::text;
create rule remove as on delete to left_boards do instead
  delete from trucks where id = old.id returning id, depot_id, null::text;

create view signs as select id, upper(name) as label from animals;
create function write_sign() returns trigger language plpgsql as $$ begin
  if tg_op = 'DELETE' then delete from animals where id = old.id; return old; end if;
  if new.label = 'DROP' then return null; end if;
  insert into animals values (new.id, lower(new.label)); return new;
end $$;
create trigger write instead of insert or delete on signs for each row execute function write_sign();
create view twice as select id as nr, a.* from animals a;
create materialized view filled as select id, city from depots;
create materialized view unfilled as select id, city from depots with no data;

create table rejects (id int primary key, note text);
create function drop_row() returns trigger language plpgsql as $$ begin
  if new.note = 'drop' then return null; end if; return new;
end $$;
create trigger drop_row before insert or update on rejects for each row execute function drop_row();
create table seats (id int primary key, pos int not null unique deferrable initially deferred);
insert into seats values (1, 1), (2, 2);
create function take_seat(id int, pos int) returns seats language sql volatile as $$ insert into seats values (id, pos) returning * $$;
create table mades (id int generated always as identity primary key, n int, double int generated always as (n * 2) stored, triple int generated always as (n * 3));
insert into mades (n) values (1);

create table "A ""Very"" long. name, it's (63) characters {é} of [all] & kind?" ("Id ""x"".y" int primary key, " " text, "a,b" text, "(c)" text, "ü" text);
create table "__proto__" ("constructor" int primary key, "__proto__" text, "toString" text);
create table "constructor" (id int primary key, "prototype" text);

-- A table and a column with the name of each parameter.
do $$ declare word text; begin
  foreach word in array '{select,order,limit,offset,columns,on_conflict,and,or,not,apikey,api_key,rpc,count,id,first,filter}'::text[] loop
    execute format('create table %1$I (key int primary key, %1$I text)', word);
    execute format('insert into %1$I values (1, %1$L), (2, null)', word);
  end loop;
end $$;

create function sample_blanks() returns table (a int, b text) language sql stable as $$ values (7, 'x'), (null::int, null::text) $$;
create function again() returns setof blanks language sql stable as $$ select * from blanks $$;
create function extremes(out low int, out high int) language sql stable as $$ select null::int, null::int $$;
create function no_blank() returns blanks language sql stable as $$ select * from blanks where false $$;
create function defaulted(a int, b int default 2, c text default 'it''s') returns text language sql stable as $$ select a || '-' || b || '-' || coalesce(c, 'null') $$;
create function echo(value anyelement) returns anyelement language sql stable as $$ select value $$;
create function echoes(value anyarray) returns anyarray language sql stable as $$ select value $$;
create function last_of(value anyarray) returns anyelement language sql stable as $$ select value[cardinality(value)] $$;
create function shape_of(side int) returns text language sql stable as $$ select 'square' $$;
create function shape_of(width int, height int) returns text language sql stable as $$ select 'rectangle' $$;
create function kind_of(value int) returns text language sql stable as $$ select 'number' $$;
create function kind_of(value text) returns text language sql stable as $$ select 'text' $$;
create function turned(inout a int, inout b text, out c bool) language sql stable as $$ select a + 1, b || '!', null::bool $$;
create function pairs(out n int, out label text) returns setof record language sql stable as $$ values (1, 'a'), (null, null) $$;
create function joined(variadic words text[]) returns text language sql stable as $$ select array_to_string(words, '-', '?') $$;
create function part_list() returns part[] language sql stable as $$ select array[row(1, 2, 'x', '{a}', null, 'true', 'NaN')::part, null, row(null, null, null, null, null, null, null)::part] $$;
create function grid_of(depots) returns int[] language sql stable as $$ select array[[1, 2], [3, null]] $$;
create function listed(n int) returns setof int language sql stable as $$ select nullif(i, 2) from generate_series(1, n) i $$;
create function moods() returns setof mood language sql stable as $$ values ('a-b'::mood), (null), ('true') $$;
create function parts() returns setof part language sql stable as $$ values ((row(1, 2, 'x', '{a}', '2026-11-20 07:05:49.123456+00', 'true', 'NaN')::part).*), (null, null, null, null, null, null, null) $$;
create function halved(n float8) returns float8 language sql stable as $$ select n / 2 $$;
create function same_big(n bigint) returns bigint language sql stable as $$ select n $$;
create function same_bigs(n bigint[]) returns bigint[] language sql stable as $$ select n $$;
create function same_numeric(n numeric) returns numeric language sql stable as $$ select n $$;
create function same_float(n float8) returns float8 language sql stable as $$ select n $$;
create function same_int(n int) returns int language sql stable as $$ select n $$;
create function same_json(n json) returns json language sql stable as $$ select n $$;
create function same_text(id bigint) returns text language sql stable as $$ select id::text $$;
create function label(depots) returns text language sql stable as $$ select 'depot ' || $1.id $$;
create function label(trucks) returns text language sql stable as $$ select 'truck ' || $1.id $$;

create function nothing(a int) returns setof void language sql volatile as $$ select from generate_series(1, a) $$;
create procedure vacate(id int) language sql as $$ delete from seats where seats.id = vacate.id $$;
create aggregate total(int) (sfunc = int4pl, stype = int, initcond = 0);

-- A NOT NULL that does not hold for old rows, and keys over periods.
create table looses (id int primary key, note text);
insert into looses values (1, null);
alter table looses add not null note not valid;
create extension btree_gist schema extensions;
create table stays (id int, during daterange, guest text, primary key (id, during without overlaps));
create table bills (id int primary key, stay int, during daterange, foreign key (stay, period during) references stays (id, period during));
insert into stays values (1, '[2026-01-01,2026-02-01)', 'ann'), (1, '[2026-02-01,2026-03-01)', 'bob');
insert into bills values (1, 1, '[2026-01-15,2026-02-15)');

create table codes (id int primary key, code char(6) not null);
create table cards (id int primary key, code_id int references codes, codes char(6)[]);
create index on cards (code_id);
insert into codes values (1, 'AB'), (2, 'CD');
insert into cards values (1, 1, '{AB,CD}');
create table members (id int primary key, mail citext unique, others citext[]);
insert into members values (1, 'Ann@X.org', '{BOB@x.org}');

-- The fixtures of the fuzz tests: columns, relations and functions of every kind.
create schema fuzz;
set search_path = fuzz, public;

create type mood as enum ('calm', 'wild');
create type point3 as (x int, y numeric, label text);
create domain short_text as varchar(8) check (value <> 'forbidden');
create domain positive as int check (value > 0);

create table places (id int primary key, name text not null);
insert into places values (1, 'here'), (2, 'there');

create table things (
  id       int primary key,
  small    smallint,
  big      bigint,
  exact    numeric(10, 2),
  loose    double precision,
  name     text,
  code     varchar(5),
  letter   "char",
  flag     boolean,
  day      date,
  moment   timestamptz,
  clock    time,
  span     interval,
  uid      uuid,
  facts    jsonb,
  notes    json,
  tags     text[],
  numbers  int[][],
  mood     mood,
  spot     point3,
  spots    point3[],
  during   tsrange,
  levels   int4range,
  several  int4multirange,
  words    tsvector,
  address  inet,
  bytes    bytea,
  doc      xml,
  at       point,
  cost     money,
  bits     bit(4),
  short    short_text,
  positive positive,
  place_id int references places on delete cascade,
  parent_id int references things on delete cascade,
  "odd "".,:()name" text,
  a23456789_123456789_123456789_123456789_123456789_123456789_123 text,
  total    numeric generated always as (exact * 2) stored
);
insert into things (id, small, big, exact, loose, name, code, letter, flag, day, moment, clock, span, uid, facts, notes,
  tags, numbers, mood, spot, spots, during, levels, several, words, address, bytes, doc, at, cost, bits, short, positive, place_id, parent_id)
select n, n, n * 10000000000, n / 3.0, n / 7.0, 'thing ' || n, 'c' || n, 'x', n % 2 = 0, date '2024-02-28' + n, now(), '12:30', '1 day',
  gen_random_uuid(), jsonb_build_object('a', n, 'b', jsonb_build_array(1, 'two', null)), '{"a": {"b": 1}}', array['x', 'y' || n],
  array[[1, 2], [3, n]], 'calm', row(n, 1.5, 'label')::point3, array[row(1, 2, 'l')::point3], '[2024-01-01,2024-02-01)', '[1,5)', '{[1,2),[5,9)}',
  to_tsvector('some words'), '10.0.0.1/24', '\xdeadbeef', '<a/>', '(1,2)', 12.5, '1010', 'short', n, 1 + n % 2, nullif(n - 1, 0)
from generate_series(1, 5) as n;

create table labels (id int primary key, label text not null unique);
insert into labels values (1, 'red'), (2, 'blue');
create table thing_labels (thing_id int references things on delete cascade, label_id int references labels on delete cascade, primary key (thing_id, label_id));
insert into thing_labels values (1, 1), (1, 2), (2, 1);
create view thing_names as select id, name, place_id from things;

create function shout(things) returns text stable language sql return upper($1.name);
create function siblings(things) returns setof things stable language sql begin atomic; select t.* from things as t where t.place_id = $1.place_id; end;
create function all_things() returns setof things stable language sql begin atomic; select t.* from things as t; end;
create function add(a int, b int default 1) returns int immutable language sql return a + b;
create function divide(a int, b numeric) returns numeric immutable language sql return a / b;
create function joined(variadic parts text[]) returns text immutable language sql return array_to_string(parts, '+');
create function whole(json) returns json immutable language sql return $1;
create function text_body(text) returns text immutable language sql return $1;
create function bytes_body(bytea) returns bytea immutable language sql return $1;
create function spot_of(s point3, m mood, j jsonb, t timestamptz, r int4range, d short_text) returns text immutable language sql return s.label || m::text || j::text || t::text || r::text || d;
create function same(a int) returns int immutable language sql return a;
create function same(a text) returns text immutable language sql return a;
create function over(a int) returns int immutable language sql return a;
create function over(b text) returns text immutable language sql return b;
create function rename_thing(id int, name text) returns setof things volatile language sql as 'update fuzz.things as t set name = $2 where t.id = $1 returning t.*';
create function nothing() returns void volatile language sql as '';
create function rows_of(n int, out a int, out b text) returns setof record stable language sql as 'select i, i::text from generate_series(1, least(n, 50)) as i';
create function untyped() returns record stable language sql as 'select 1, 2';

-- The requests whose writes were committed.
create table writers (request text);
create function log_writer() returns trigger security definer language plpgsql set search_path = '' as $$
begin
  insert into fuzz.writers values (current_setting('request.headers')::json ->> 'x-request-id');
  return null;
end $$;
create trigger writer after insert or update or delete on things for each statement execute function log_writer();
create trigger writer after insert or update or delete on places for each statement execute function log_writer();
create trigger writer after insert or update or delete on labels for each statement execute function log_writer();

grant usage on schema fuzz to anon, authenticated;
grant select, insert, update, delete on things, places, labels, thing_labels to authenticated;
grant select on things, places, labels, thing_labels, thing_names to anon;
grant execute on all functions in schema fuzz to anon, authenticated;
reset search_path;

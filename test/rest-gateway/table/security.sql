-- The fixtures of the security tests: secrets behind policies, malicious functions, names at the length limit of Postgres.
create table secrets (id int primary key, owner_id bigint not null, code int not null default 0,
  text text unique check (text <> 'no'), payload jsonb default '{}');
insert into secrets values (1, 1, 5, 'secret of Ada'), (2, 2, 7, 'secret of Bob');
alter table secrets enable row level security;
create policy "owners see their own" on secrets using (owner_id = (select auth.uid()));
grant select, insert, update, delete on secrets to anon, authenticated, service_role;

-- Raises an error that reveals its row.
create function leak(secrets) returns text stable language plpgsql as
  $$ begin raise exception 'leaked: %', $1.text; end $$;

-- Postgres truncates names to 63 bytes.
create table long_names (
  id int primary key,
  a23456789_123456789_123456789_123456789_123456789_123456789_123 text
);
insert into long_names values (1, 'cut');
create table t23456789_123456789_123456789_123456789_123456789_123456789_123 (id int);
create function f23456789_123456789_123456789_123456789_123456789_123456789_123(
  p23456789_123456789_123456789_123456789_123456789_123456789_123 int default 1) returns int language sql return 1;

create table hidden (id int primary key, text text);
create table children (id int primary key, hidden_id int references hidden);
grant select on children to anon;

create function whoami() returns text stable language sql return current_user || ' ' || coalesce(auth.uid()::text, '-');
create function become(name text) returns text volatile language plpgsql as
  $$ begin execute format('set role %I', name); return current_user; end $$;
create function unbecome() returns text volatile language plpgsql as $$ begin reset role; return current_user; end $$;
create function keep(name text, value text) returns text volatile language sql return set_config(name, value, false);
create function stored(name text) returns text stable language sql return current_setting(name, true);

create function writes() returns int volatile language sql as 'insert into long_names values (9) returning id';
create function writes_stably() returns int stable language sql as 'select writes()';
create view writing as select writes() as id;
grant select, insert on long_names to anon;
grant select on writing, t23456789_123456789_123456789_123456789_123456789_123456789_123 to anon;

create function sets_headers(headers text) returns int stable language plpgsql as
  $$ begin perform set_config('response.headers', headers, true); return 1; end $$;
create function raises(message text, detail text) returns int stable language plpgsql as
  $$ begin raise sqlstate 'PGRST' using message = message, detail = detail; end $$;
create function fails(secret text) returns int stable language plpgsql as
  $$ begin raise exception using errcode = 'XX000', message = 'broken', detail = secret; end $$;

-- Operators and functions with the names and types of built-in ones.
create function never(bigint, bigint) returns bool language plpgsql as $$ begin raise exception 'taken in'; end $$;
create operator = (leftarg = bigint, rightarg = bigint, function = never);
create operator <> (leftarg = bigint, rightarg = bigint, function = never);
create function count() returns bigint language plpgsql as $$ begin raise exception 'taken in'; end $$;
create function to_tsvector(text) returns tsvector language plpgsql as $$ begin raise exception 'taken in'; end $$;
create function json_agg(record) returns json language plpgsql as $$ begin raise exception 'taken in'; end $$;
create function json_to_record(json) returns record language plpgsql as $$ begin raise exception 'taken in'; end $$;
create function current_setting(text, bool) returns text language plpgsql as $$ begin raise exception 'taken in'; end $$;
create domain text as pg_catalog.text check (value <> 'taken in');

grant execute on all functions in schema public to anon, authenticated, service_role;

-- A shop that rents films, in the form of Pagila: domains, enums, generated and searched text, partitions, a view without data, and one role
-- of all callers.
create role all_anon nologin;
create domain public.year as integer check (value between 1901 and 2155);
create type public.rating as enum ('G', 'PG', 'R');

create table public.stores (store_id int generated always as identity primary key, city text not null);
create table public.customer (
  customer_id int generated always as identity primary key,
  store_id    int not null references public.stores,
  first_name  text not null,
  email       text,
  active      boolean not null default true,
  created     date not null default current_date
);
create index on public.customer (store_id);
create table public.films (
  film_id      int generated always as identity primary key,
  title        text not null,
  release_year public.year,
  rating       public.rating default 'G',
  features     text[],
  rate         numeric(4, 2) not null default 4.99,
  week_rate    numeric(6, 2) generated always as (rate * 7) stored,
  fulltext     tsvector not null
);
create trigger films_fulltext before insert or update on public.films
  for each row execute function tsvector_update_trigger(fulltext, 'pg_catalog.english', title);
create index on public.films using gin (fulltext);
create table public.rental (
  rental_id   int generated always as identity primary key,
  rented      tstzrange not null default tstzrange(now(), null),
  customer_id int not null references public.customer on delete cascade,
  film_id     int not null references public.films
);
create index on public.rental (customer_id);
create index on public.rental (film_id);
create table public.payment (
  payment_id  int generated always as identity,
  customer_id int not null references public.customer,
  amount      numeric(5, 2) not null,
  paid        timestamptz not null,
  primary key (paid, payment_id)
) partition by range (paid);
create table public.payment_2022 partition of public.payment for values from ('2022-01-01') to ('2023-01-01');
create table public.payment_2023 partition of public.payment for values from ('2023-01-01') to ('2024-01-01');
create view public.customer_list as select customer_id as id, first_name as name, active from public.customer;
create materialized view public.rental_by_film as
  select film_id, count(*) as rentals from public.rental group by film_id with no data;
create function public.rewards(rentals bigint) returns setof public.customer language plpgsql stable as $$
begin
  return query select c.* from public.customer as c where (select count(*) from public.rental as r where r.customer_id = c.customer_id) >= rentals;
end $$;
create aggregate public.concatenated(text) (sfunc = textcat, stype = text);

-- Found by the search_path of the database, as the table in the function is.
create schema loyalty;
do $$ begin execute format('alter database %I set search_path = public, loyalty', current_database()); end $$;
set search_path = public, loyalty;
create table loyalty.card (id int primary key, holder text);
create function loyalty.clean(c loyalty.card) returns text language plpgsql stable as $$
declare r card;
begin
  r := c;
  return r.holder;
end $$;
create view loyalty.cards as select id, loyalty.clean(card) as holder from loyalty.card;
grant usage on schema public, loyalty to all_anon;
grant all on all tables in schema public, loyalty to all_anon;

insert into loyalty.card values (1, 'Mary');

insert into public.stores (city) values ('Lethbridge'), ('Woodridge');
insert into public.customer (store_id, first_name, email) values (1, 'Mary', 'mary@example.com'), (2, 'Ann', null);
insert into public.films (title, release_year) values ('Academy Dinosaur', 2006);
insert into public.rental (customer_id, film_id) values (1, 1);
insert into public.payment (customer_id, amount, paid) values (1, 2.99, '2022-02-15'), (1, 4.99, '2023-02-15');

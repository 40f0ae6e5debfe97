-- A shop for several stores: bigint keys, customers who see their own orders, staff who see the orders of their store.
-- The storefront is anonymous (shop_web). Tokens have the claims role, sub (customer) and store.
create role shop_owner nologin;
create role shop_web nologin;
create role shop_customer nologin;
create role "shop_Staff" nologin;
create role shop_api login noinherit password 'secret';
create role shop_feed login replication password 'secret';
grant shop_web, shop_customer, "shop_Staff" to shop_api;

create schema store authorization shop_owner;
create schema internal authorization shop_owner;
set role shop_owner;

create type store.order_status as enum ('cart', 'placed', 'paid', 'shipped', 'returned', 'cancelled');
create type store.payment_method as enum ('card', 'invoice', 'voucher');
create domain store.sku as text check (value ~ '^[A-Z]{2}-[0-9]{4,8}$');
create domain store.cents as integer check (value >= 0);

create function internal.claim(name text) returns text language sql stable as
$$ select nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> name $$;
create function internal.customer_id() returns bigint language sql stable as $$ select internal.claim('sub')::bigint $$;
create function internal.store_id() returns bigint language sql stable as $$ select internal.claim('store')::bigint $$;

create table store.stores (
  id         bigint generated always as identity primary key,
  name       text not null unique,
  currency   char(3) not null default 'EUR',
  opened_on  date not null default current_date,
  is_closed  boolean not null default false
);

create table store.customers (
  id            bigint generated always as identity primary key,
  email         text not null unique,
  full_name     text not null,
  password_hash text not null,
  loyalty       smallint not null default 0,
  created_at    timestamptz not null default now()
);

create table store.addresses (
  id          bigint generated always as identity primary key,
  customer_id bigint not null default internal.customer_id() references store.customers on delete cascade,
  line        text not null,
  city        text not null,
  country     char(2) not null
);
create index on store.addresses (customer_id);

create table store.categories (
  slug   text primary key,
  title  text not null,
  parent text references store.categories on delete restrict
);
create index on store.categories (parent);

create table store.products (
  id           bigint generated always as identity primary key,
  store_id     bigint not null references store.stores on delete cascade,
  name         text not null,
  description  text not null default '',
  tags         text[] not null default '{}',
  details      jsonb not null default '{}',
  is_published boolean not null default false,
  search       tsvector generated always as (to_tsvector('simple', name || ' ' || description)) stored,
  created_at   timestamptz not null default now(),
  updated_at   timestamptz
);
create index on store.products (store_id);
create index on store.products using gin (search);

create table store.product_categories (
  product_id bigint not null references store.products on delete cascade,
  category   text not null references store.categories on delete cascade,
  primary key (product_id, category)
);
create index on store.product_categories (category);

create table store.variants (
  id          bigint generated always as identity primary key,
  product_id  bigint not null references store.products on delete cascade,
  sku         store.sku not null unique,
  size        text,
  net_cents   store.cents not null,
  tax_rate    numeric(4, 3) not null default 0.19,
  gross_cents integer generated always as (round(net_cents * (1 + tax_rate))::integer) stored,
  stock       integer not null default 0
);
create index on store.variants (product_id);

create table store.orders (
  id          bigint generated always as identity primary key,
  store_id    bigint not null references store.stores on delete restrict,
  customer_id bigint not null references store.customers on delete restrict,
  ship_to     bigint references store.addresses on delete set null,
  number      text not null,
  status      store.order_status not null default 'cart',
  note        text,
  placed_at   timestamptz,
  unique (store_id, number)
);
create index on store.orders (customer_id);
create index on store.orders (ship_to);

create table store.order_lines (
  order_id   bigint not null references store.orders on delete cascade,
  line       smallint not null,
  variant_id bigint not null references store.variants on delete restrict,
  quantity   integer not null check (quantity between 1 and 99),
  net_cents  store.cents not null,
  primary key (order_id, line)
);
create index on store.order_lines (variant_id);

create table store.payments (
  id         uuid primary key default gen_random_uuid(),
  order_id   bigint not null references store.orders on delete restrict,
  method     store.payment_method not null,
  cents      store.cents not null,
  paid_at    timestamptz not null default now()
);
create index on store.payments (order_id);

create table store.reviews (
  product_id  bigint not null references store.products on delete cascade,
  customer_id bigint not null default internal.customer_id() references store.customers on delete cascade,
  stars       smallint not null check (stars between 1 and 5),
  body        text,
  primary key (product_id, customer_id)
);
create index on store.reviews (customer_id);

-- A log that a job of the warehouse writes. It has no key.
create table store.stock_movements (
  variant_id bigint not null references store.variants on delete cascade,
  change     integer not null,
  reason     text not null,
  at         timestamptz not null default now()
);
create index on store.stock_movements (variant_id);

create table store.order_events (
  id       bigint generated always as identity,
  order_id bigint not null,
  status   store.order_status not null,
  at       timestamptz not null default now(),
  primary key (id, at)
) partition by range (at);
create table store.order_events_2026 partition of store.order_events for values from ('2026-01-01') to ('2027-01-01');
create table store.order_events_default partition of store.order_events default;
create index on store.order_events (order_id);

-- An order gets the next number of its store, and the customer of the token.
create function internal.number_order() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.customer_id := coalesce(new.customer_id, internal.customer_id());
  select 'O' || lpad((count(*) + 1)::text, 5, '0') into new.number from store.orders where store_id = new.store_id;
  return new;
end $$;
create trigger number before insert on store.orders for each row when (new.number is null)
  execute function internal.number_order();

create function internal.log_order() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into store.order_events (order_id, status) values (new.id, new.status);
  return null;
end $$;
create trigger log after insert or update of status on store.orders for each row execute function internal.log_order();

create function internal.touch() returns trigger language plpgsql set search_path = '' as
$$ begin new.updated_at := now(); return new; end $$;
create trigger touch before update on store.products for each row execute function internal.touch();

create function internal.price_line() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  select net_cents into new.net_cents from store.variants where id = new.variant_id;
  return new;
end $$;
create trigger price before insert on store.order_lines for each row execute function internal.price_line();

create function store.search_products(words text) returns setof store.products language sql stable as
$$ select * from store.products where search @@ websearch_to_tsquery('simple', words) order by id $$;
create function store.cart(shop bigint) returns store.orders language sql stable as
$$ select * from store.orders where store_id = shop and customer_id = internal.customer_id() and status = 'cart' order by id limit 1 $$;
create function store.place_order(id bigint) returns store.orders language plpgsql set search_path = '' as $$
declare placed store.orders;
begin
  update store.orders as o set status = 'placed', placed_at = now() where o.id = place_order.id and status = 'cart' returning * into placed;
  if placed.id is null then raise no_data_found using message = 'no such cart'; end if;
  return placed;
end $$;
create function store.orders_total(o store.orders) returns bigint language sql stable as
$$ select coalesce(sum(net_cents * quantity), 0) from store.order_lines where order_id = o.id $$;

create view store.catalog with (security_invoker = true) as
  select p.id, p.store_id, p.name, min(v.gross_cents) as from_cents, coalesce(sum(v.stock), 0) as stock
  from store.products as p left join store.variants as v on v.product_id = p.id
  group by p.id;

grant usage on schema store to shop_web, shop_customer, "shop_Staff";
grant usage on schema internal to shop_customer, "shop_Staff", shop_web;
revoke execute on all functions in schema store, internal from public;
grant execute on function internal.claim, internal.customer_id, internal.store_id to shop_web, shop_customer, "shop_Staff";
grant execute on function store.search_products to shop_web, shop_customer, "shop_Staff";
grant execute on function store.cart, store.place_order, store.orders_total to shop_customer;
grant execute on function store.orders_total to "shop_Staff";

grant select on store.stores, store.categories, store.product_categories, store.products, store.variants, store.catalog, store.reviews
  to shop_web, shop_customer, "shop_Staff";
grant select (id, email, full_name, loyalty, created_at) on store.customers to shop_customer, "shop_Staff";
grant update (full_name) on store.customers to shop_customer;
grant select, insert (line, city, country), update (line, city, country), delete on store.addresses to shop_customer;
grant select on store.addresses to "shop_Staff";
grant insert (store_id, ship_to, note), select, update (ship_to, note, status, placed_at), delete on store.orders to shop_customer;
grant select, update (status, note) on store.orders to "shop_Staff";
grant select, insert (order_id, line, variant_id, quantity), update (quantity), delete on store.order_lines to shop_customer;
grant select on store.order_lines, store.payments, store.order_events to shop_customer, "shop_Staff";
grant insert (product_id, stars, body), update (stars, body), delete on store.reviews to shop_customer;
grant insert (store_id, name, description, tags, details, is_published), update (name, description, tags, details, is_published),
  delete on store.products to "shop_Staff";
grant insert, update, delete on store.variants, store.product_categories to "shop_Staff";
grant select, insert on store.stock_movements to "shop_Staff";

alter table store.stores enable row level security;
create policy "open stores are public" on store.stores for select using (not is_closed);
alter table store.categories enable row level security;
create policy "categories are public" on store.categories for select using (true);
alter table store.products enable row level security;
create policy "published products are public" on store.products for select using (is_published);
create policy "staff manage the products of their store" on store.products to "shop_Staff"
  using (store_id = (select internal.store_id())) with check (store_id = (select internal.store_id()));
alter table store.product_categories enable row level security;
create policy "categories of products are public" on store.product_categories for select using (true);
create policy "staff sort their products" on store.product_categories to "shop_Staff"
  using (exists (select from store.products as p where p.id = product_id and p.store_id = (select internal.store_id())));
-- The variants of an unpublished product are still shown in old orders.
alter table store.variants enable row level security;
create policy "variants are public" on store.variants for select using (true);
create policy "staff manage variants" on store.variants to "shop_Staff"
  using (exists (select from store.products as p where p.id = product_id and p.store_id = (select internal.store_id())));
alter table store.customers enable row level security;
create policy "customers see and change themselves" on store.customers to shop_customer using (id = (select internal.customer_id()));
create policy "staff see the customers of their store" on store.customers for select to "shop_Staff"
  using (id in (select customer_id from store.orders where store_id = (select internal.store_id())));
alter table store.addresses enable row level security;
create policy "customers keep their addresses" on store.addresses to shop_customer using (customer_id = (select internal.customer_id()));
create policy "staff see where they ship to" on store.addresses for select to "shop_Staff"
  using (id in (select ship_to from store.orders where store_id = (select internal.store_id())));
alter table store.orders enable row level security;
create policy "customers use their orders" on store.orders to shop_customer using (customer_id = (select internal.customer_id()));
create policy "staff use the orders of their store" on store.orders to "shop_Staff" using (store_id = (select internal.store_id()));
alter table store.order_lines enable row level security;
create policy "who sees an order sees its lines" on store.order_lines to shop_customer, "shop_Staff"
  using (exists (select from store.orders as o where o.id = order_id));
alter table store.payments enable row level security;
create policy "who sees an order sees its payments" on store.payments for select to shop_customer, "shop_Staff"
  using (exists (select from store.orders as o where o.id = order_id));
alter table store.order_events enable row level security;
create policy "who sees an order sees its events" on store.order_events for select to shop_customer, "shop_Staff"
  using (exists (select from store.orders as o where o.id = order_id));
alter table store.reviews enable row level security;
create policy "reviews are public" on store.reviews for select using (true);
create policy "customers write their own reviews" on store.reviews to shop_customer
  using (customer_id = (select internal.customer_id())) with check (customer_id = (select internal.customer_id()));
alter table store.stock_movements enable row level security;
create policy "staff see movements" on store.stock_movements for select to "shop_Staff" using (true);
create policy "staff record movements" on store.stock_movements for insert to "shop_Staff"
  with check (exists (select from store.variants as v where v.id = variant_id));

-- The third store is closed, and every fifth product is unpublished.
insert into store.stores (name, is_closed) values ('North', false), ('South', false), ('Old Town', true);
insert into store.customers (email, full_name, password_hash, loyalty)
  select 'c' || n || '@example.com', 'Customer ' || n, 'x', n % 4 from generate_series(1, 12) as n;
insert into store.addresses (customer_id, line, city, country)
  select 1 + n % 12, n || ' High Street', (array['Bergen', 'Porto'])[1 + n % 2], (array['NO', 'PT'])[1 + n % 2] from generate_series(1, 18) as n;
insert into store.categories values
  ('clothing', 'Clothing', null), ('shoes', 'Shoes', 'clothing'), ('coats', 'Coats', 'clothing'), ('books', 'Books', null);
insert into store.products (store_id, name, description, tags, details, is_published, created_at)
  select 1 + n % 3, 'Product ' || n, (array['warm and dry', 'light', 'classic, warm'])[1 + n % 3],
    array['season-' || n % 4, 'new'], jsonb_build_object('weight', n * 10, 'origin', 'PT'), n % 5 > 0, '2026-10-01'::timestamptz + n * interval '1 hour'
  from generate_series(1, 30) as n;
insert into store.product_categories
  select n, (array['shoes', 'coats', 'books'])[1 + n % 3] from generate_series(1, 30) as n;
insert into store.variants (product_id, sku, size, net_cents, stock)
  select 1 + n / 2 % 30, 'SK-' || lpad(n::text, 5, '0'), case when n % 3 > 0 then (array['S', 'M', 'L'])[1 + n % 3] end, 500 + n * 25, n % 7
  from generate_series(0, 59) as n;
insert into store.orders (store_id, customer_id, ship_to, number, status, placed_at)
  select 1 + n % 3, 1 + n % 12, case when n % 4 > 0 then 1 + n % 18 end, 'O' || lpad(n::text, 5, '0'),
    (array['cart', 'placed', 'paid', 'shipped', 'cancelled'])[1 + n % 5]::store.order_status,
    case when n % 5 > 0 then '2026-11-01'::timestamptz + n * interval '1 hour' end
  from generate_series(1, 48) as n;
insert into store.order_lines (order_id, line, variant_id, quantity)
  select n, line, 1 + (n * 7 + line * 11) % 60, 1 + n % 3 from generate_series(1, 48) as n, generate_series(1, 3) as line;
insert into store.payments (id, order_id, method, cents, paid_at)
  select ('00000000-0000-4000-8000-' || lpad(id::text, 12, '0'))::uuid, id, 'card', 1000 + id, placed_at from store.orders where status in ('paid', 'shipped');
insert into store.reviews (product_id, customer_id, stars, body)
  select 1 + n * 7 % 30, 1 + n % 12, 1 + n % 5, case when n % 2 = 0 then 'Good.' end from generate_series(1, 24) as n on conflict do nothing;
insert into store.stock_movements select 1 + n % 60, n - 10, 'count', '2026-11-02'::timestamptz + n * interval '1 minute' from generate_series(1, 20) as n;
reset role;
analyze;

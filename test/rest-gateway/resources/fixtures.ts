import type { Description } from "../../../rest-gateway/resources/description.ts";
import { DESCRIPTIONS } from "../../support/demo.ts";

/** A table as a team might have it: a UUID as key, columns under names of their own, types of many kinds. */
export const TABLES = `
  create type product_state as enum ('NEW', 'USED');
  create table products (
    product_id    uuid primary key default gen_random_uuid(),
    label      varchar(8) not null,
    maker      bigint references users,
    owner_id   bigint not null default auth.uid() references users,
    state      product_state not null default 'NEW',
    price      numeric(8, 2) not null default 1.50,
    weight     float8,
    facts      jsonb not null default '{}',
    note       text default 'none yet',
    is_sold    boolean not null default false,
    sizes      int[] not null default '{}',
    made_on    date,
    touched_at timestamptz not null default now(),

    constraint products_price_range check (price >= 0)
  );
  comment on constraint products_price_range on products is 'price must not be negative';
  create trigger touch before update on products for each row execute function internal.touch_product();
  alter table products enable row level security;
  grant select on products to anon, authenticated;
  grant insert, update, delete on products to authenticated;
  create policy "everyone reads products" on products for select using (true);
  create policy "owners write their products" on products to authenticated
    using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));

  create function product_matches(product products, keyword text) returns boolean language sql immutable
  return product.label ilike internal.substring_pattern(keyword);
  create function sell_product(product_id uuid) returns products language sql volatile
  begin atomic
    update products as g set is_sold = true where g.product_id = sell_product.product_id returning g.*;
  end;

  create view cheap_products with (security_invoker) as select product_id, label, price from products where price < 10;
  grant select, insert (label, price), update (label, price), delete on cheap_products to authenticated;
  -- An update to the default takes that of the view.
  alter view cheap_products alter column price set default 1.50;
  grant select on cheap_products to anon;
  create function cheap_product_matches(product cheap_products, keyword text) returns boolean language sql immutable
  return product.label ilike internal.substring_pattern(keyword);

  create view product_prices with (security_invoker) as select product_id, price from products;
  grant select on product_prices to anon, authenticated;
  create function product_price_matches(product product_prices, keyword text) returns boolean language sql immutable return false;

  grant execute on function product_matches, sell_product, cheap_product_matches, product_price_matches to anon, authenticated;`;

export const DDL = `
  create function internal.touch_product() returns trigger language plpgsql as
    $$ begin new.touched_at := clock_timestamp(); return new; end $$;
  ${TABLES}`;

export const PRODUCTS: Description = {
  name: "products",
  singular: "product",
  about: "Things for sale.",
  table: "public.products",
  fields: {
    id: { column: "product_id" },
    name: { column: "label", write: "always", isRequired: true },
    maker_id: { column: "maker", write: "always" },
    owner_id: {},
    state: { write: "always" },
    price: { write: "always" },
    weight: { write: "always" },
    facts: { write: "always" },
    note: { write: "always" },
    is_sold: {},
    sizes: { write: "always" },
    made_on: { write: "on create" },
    touched_at: {},
  },
  modified: ["touched_at"],
  missing: "RESOURCE_NOT_FOUND",
  list: "envelope",
  pageSize: 5,
  order: [{ field: "name", direction: "asc" }],
  sorts: ["name", "price", "weight"],
  filters: {
    name: { field: "name", operator: "is", about: "Products of this name." },
    state: { field: "state", operator: "is", about: "Products in this state." },
    price: { field: "price", operator: "is", about: "Products at this price." },
    is_sold: { field: "is_sold", operator: "is", about: "Products that are sold, or not." },
    heavier: { field: "weight", operator: "from", about: "Products of this weight or more." },
    made_before: { field: "made_on", operator: "before", about: "Products made before this day." },
    fits: { field: "sizes", operator: "has", about: "Products that come in this size." },
    maker: { field: "maker_id", operator: "is", about: "Products by this maker." },
  },
  search: "public.product_matches",
  relations: {
    first_maker: { resource: "users", field: "maker_id" },
    owner: { resource: "users", field: "owner_id" },
  },
  collections: {},
  actions: { sell: { function: "public.sell_product", about: "Marks the product as sold." } },
  cascade: [],
  editor: null,
  hasAccount: false,
};

const NONE = { filters: {}, relations: {}, collections: {}, actions: {}, cascade: [], modified: [], sorts: [] };

/** Rows of a view. */
export const CHEAP_PRODUCTS: Description = {
  ...PRODUCTS,
  ...NONE,
  name: "cheap-products",
  table: "public.cheap_products",
  fields: {
    id: { column: "product_id" },
    name: { column: "label", write: "always", isRequired: true },
    price: { write: "always" },
  },
  search: "public.cheap_product_matches",
};

/** Read-only rows. */
export const PRODUCT_PRICES: Description = {
  ...PRODUCTS,
  ...NONE,
  name: "product-prices",
  table: "public.product_prices",
  fields: { id: { column: "product_id" }, price: {} },
  order: [],
  search: "public.product_price_matches",
};

export const MAKERS: Description = {
  ...DESCRIPTIONS.find(({ name }) => name === "users")!,
  collections: { products: { resource: "products", field: "maker_id", isCreatable: true } },
};

import type { Description } from "../../../rest-gateway/resources/description.ts";
import { USERS } from "../../../rest-gateway/resources/descriptions/users.ts";

/** A table as a team might have it: a UUID as key, columns under names of their own, types of many kinds. */
export const TABLES = `
  create type gear_state as enum ('NEW', 'USED');
  create table gears (
    gear_id    uuid primary key default gen_random_uuid(),
    label      varchar(8) not null,
    maker      bigint references users,
    owner_id   bigint not null default auth.uid() references users,
    state      gear_state not null default 'NEW',
    price      numeric(8, 2) not null default 1.50,
    weight     float8,
    facts      jsonb not null default '{}',
    note       text default 'none yet',
    is_sold    boolean not null default false,
    sizes      int[] not null default '{}',
    made_on    date,
    touched_at timestamptz not null default now(),

    constraint gears_price_range check (price >= 0)
  );
  comment on constraint gears_price_range on gears is 'price must not be negative';
  create trigger touch before update on gears for each row execute function internal.touch_gear();
  alter table gears enable row level security;
  grant select on gears to anon, authenticated;
  grant insert, update, delete on gears to authenticated;
  create policy "everyone reads gears" on gears for select using (true);
  create policy "owners write their gears" on gears to authenticated
    using (owner_id = (select auth.uid())) with check (owner_id = (select auth.uid()));

  create function gear_matches(gear gears, keyword text) returns boolean language sql immutable
  return gear.label ilike internal.substring_pattern(keyword);
  create function sell_gear(gear_id uuid) returns gears language sql volatile
  begin atomic
    update gears as g set is_sold = true where g.gear_id = sell_gear.gear_id returning g.*;
  end;

  create view cheap_gears with (security_invoker) as select gear_id, label, price from gears where price < 10;
  grant select, insert (label, price), update (label, price), delete on cheap_gears to authenticated;
  -- An update to the default takes that of the view.
  alter view cheap_gears alter column price set default 1.50;
  grant select on cheap_gears to anon;
  create function cheap_gear_matches(gear cheap_gears, keyword text) returns boolean language sql immutable
  return gear.label ilike internal.substring_pattern(keyword);

  create view gear_prices with (security_invoker) as select gear_id, price from gears;
  grant select on gear_prices to anon, authenticated;
  create function gear_price_matches(gear gear_prices, keyword text) returns boolean language sql immutable return false;

  grant execute on function gear_matches, sell_gear, cheap_gear_matches, gear_price_matches to anon, authenticated;`;

export const DDL = `
  create function internal.touch_gear() returns trigger language plpgsql as
    $$ begin new.touched_at := clock_timestamp(); return new; end $$;
  ${TABLES}`;

export const GEARS: Description = {
  name: "gears",
  singular: "gear",
  about: "Wheels with teeth.",
  table: "public.gears",
  fields: {
    id: { column: "gear_id" },
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
    name: { field: "name", operator: "is", about: "Gears of this name." },
    state: { field: "state", operator: "is", about: "Gears in this state." },
    price: { field: "price", operator: "is", about: "Gears at this price." },
    is_sold: { field: "is_sold", operator: "is", about: "Gears that are sold, or not." },
    heavier: { field: "weight", operator: "from", about: "Gears of this weight or more." },
    made_before: { field: "made_on", operator: "before", about: "Gears made before this day." },
    fits: { field: "sizes", operator: "has", about: "Gears that come in this size." },
    maker: { field: "maker_id", operator: "is", about: "Gears by this maker." },
  },
  search: "public.gear_matches",
  relations: {
    first_maker: { resource: "users", field: "maker_id" },
    owner: { resource: "users", field: "owner_id" },
  },
  collections: {},
  actions: { sell: { function: "public.sell_gear", about: "Sells it." } },
  cascade: [],
  editor: null,
  hasAccount: false,
};

const NONE = { filters: {}, relations: {}, collections: {}, actions: {}, cascade: [], modified: [], sorts: [] };

/** Rows of a view. */
export const CHEAP_GEARS: Description = {
  ...GEARS,
  ...NONE,
  name: "cheap-gears",
  table: "public.cheap_gears",
  fields: {
    id: { column: "gear_id" },
    name: { column: "label", write: "always", isRequired: true },
    price: { write: "always" },
  },
  search: "public.cheap_gear_matches",
};

/** Rows that nobody writes. */
export const GEAR_PRICES: Description = {
  ...GEARS,
  ...NONE,
  name: "gear-prices",
  table: "public.gear_prices",
  fields: { id: { column: "gear_id" }, price: {} },
  order: [],
  search: "public.gear_price_matches",
};

export const MAKERS: Description = {
  ...USERS,
  collections: { gears: { resource: "gears", field: "maker_id", isCreatable: true } },
};

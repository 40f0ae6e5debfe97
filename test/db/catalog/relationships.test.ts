import { expect, test } from "vitest";
import { relationshipsOf, useCatalog } from "../../support/catalog.ts";

const shop = useCatalog(
  `
  create schema shop;
  create schema more;
  create schema hidden;
  create schema helpers;

  create table shop.users (id int primary key, boss_id int constraint users_boss references shop.users);
  create table shop.orders (id int primary key, buyer_id int references shop.users, seller_id int references shop.users);
  create table shop.profiles (user_id int primary key references shop.users);
  create table shop.badges (
    code text primary key, first int, second int, unique (second, first), owner_id int references shop.users
  );
  create unique index on shop.badges (owner_id);

  create table more.places (x int, y int, primary key (x, y));
  create table more.shelves (id int primary key, y int, x int, foreign key (x, y) references more.places (x, y));
  create table more.labels (a int, b int, unique (b, a), foreign key (a, b) references more.places (x, y));

  create table shop.films (id int primary key);
  create table shop.actors (id int primary key);
  create table shop.roles (
    film_id int references shop.films, actor_id int references shop.actors, primary key (film_id, actor_id)
  );
  create table shop.extras (
    id int primary key, film_id int references shop.films, actor_id int references shop.actors
  );
  create table shop.friendships (
    one int constraint friendships_one references shop.users,
    other int constraint friendships_other references shop.users,
    primary key (one, other)
  );

  create table more.stores (id int primary key);
  create table more.sales (
    id int, sold_on date, store_id int references more.stores, primary key (id, sold_on)
  ) partition by range (sold_on);
  create table more.sales_2025 partition of more.sales for values from ('2025-01-01') to ('2026-01-01');
  create table more.refunds (
    id int primary key, sale_id int, sold_on date, foreign key (sale_id, sold_on) references more.sales
  );

  create table more.rooms (id int4range, during daterange, primary key (id, during without overlaps));
  create table more.stays (
    id int primary key, room int4range, during daterange,
    foreign key (room, period during) references more.rooms (id, period during)
  );

  create table hidden.ledgers (id int primary key);
  create table shop.entries (id int primary key, ledger_id int references hidden.ledgers);
  create table hidden.notes (id int primary key, film_id int references shop.films);
  create table hidden.castings (
    film_id int references shop.films, actor_id int references shop.actors, primary key (film_id, actor_id)
  );

  create function shop.sequel(shop.films) returns setof shop.films rows 1 language sql stable as 'select null::shop.films';
  create function shop.director(shop.films) returns shop.actors language sql stable as 'select null::shop.actors';
  create function helpers.crew(film shop.films) returns setof shop.actors language sql stable as 'select null::shop.actors';
  create function hidden.critics(shop.films) returns setof shop.users language sql stable as 'select null::shop.users';
  create function shop.ledgers(shop.films) returns setof hidden.ledgers language sql stable as 'select null::hidden.ledgers';
  create function shop.of_two(shop.films, int) returns setof shop.actors language sql stable as 'select null::shop.actors';
  create function shop.title(shop.films) returns varchar language sql stable as 'select ''t''::varchar';
  create function shop.summary(shop.films) returns text language sql stable as 'select ''of the film''';
  create function helpers.summary(shop.films) returns varchar language sql stable as 'select ''of the helpers''::varchar';
  create function helpers.words(shop.films) returns text[] language sql stable as 'select ''{}''::text[]';
  create function shop.rating(film shop.films, out stars int) language sql stable as 'select 5';
  create function shop.scenes(shop.films) returns setof int language sql stable as 'select 1';
  create function shop.nothing(shop.films) returns void language sql as '';
  create procedure shop.burn(shop.films) language sql as '';
  comment on function shop.title(shop.films) is 'What it is called.';`,
  { schemas: ["shop", "more"], extraSearchPath: ["helpers"] },
);

const relationships = (name: string) => relationshipsOf(shop().table(name));

test("a foreign key is many-to-one, and one-to-many from the other side; a table may refer to itself", () => {
  expect(relationships("shop.orders")).toEqual([
    "orders.buyer_id = users.id many-to-one orders_buyer_id_fkey",
    "orders.seller_id = users.id many-to-one orders_seller_id_fkey",
  ]);
  expect(relationships("shop.users")).toEqual([
    "users.boss_id = users.id many-to-one users_boss",
    "users.id = badges.owner_id one-to-many badges_owner_id_fkey",
    "users.id = friendships.one one-to-many friendships_one",
    "users.id = friendships.other one-to-many friendships_other",
    "users.id = orders.buyer_id one-to-many orders_buyer_id_fkey",
    "users.id = orders.seller_id one-to-many orders_seller_id_fkey",
    "users.id = profiles.user_id one-to-one to its owner profiles_user_id_fkey",
    "users.id = users.boss_id one-to-many users_boss",
    "users.id = friendships.one and friendships.other = users.id many-to-many",
    "users.id = friendships.other and friendships.one = users.id many-to-many",
  ]);
});

test("a foreign key with a primary key or unique constraint over its columns, in any order, is one-to-one", () => {
  expect(relationships("shop.profiles")).toEqual([
    "profiles.user_id = users.id one-to-one from its owner profiles_user_id_fkey",
  ]);
  expect(relationships("more.labels")).toEqual([
    "labels.a = places.x and labels.b = places.y one-to-one from its owner labels_a_b_fkey",
  ]);
});

test("a unique index without a constraint leaves it many-to-one, as in PostgREST", () => {
  expect(relationships("shop.badges")).toEqual(["badges.owner_id = users.id many-to-one badges_owner_id_fkey"]);
});

test("a composite key pairs its columns as declared", () => {
  expect(relationships("more.places")).toEqual([
    "places.x = labels.a and places.y = labels.b one-to-one to its owner labels_a_b_fkey",
    "places.x = shelves.x and places.y = shelves.y one-to-many shelves_x_y_fkey",
  ]);
});

test("a junction has both foreign keys within its primary key", () => {
  const ways = shop()
    .table("shop.films")
    .relationships.filter(({ kind }) => kind === "many-to-many");
  expect(ways).toEqual([
    {
      kind: "many-to-many",
      isToOne: false,
      target: { schema: "shop", name: "actors" },
      junction: { schema: "shop", name: "roles" },
      source: { constraint: "roles_film_id_fkey", columns: [["id", "film_id"]] },
      further: { constraint: "roles_actor_id_fkey", columns: [["actor_id", "id"]] },
    },
  ]);
});

test("partitions do not repeat the relationships of their parent", () => {
  expect(relationships("more.stores")).toEqual(["stores.id = sales.store_id one-to-many sales_store_id_fkey"]);
  expect(relationships("more.sales")).toEqual([
    "sales.store_id = stores.id many-to-one sales_store_id_fkey",
    "sales.id = refunds.sale_id and sales.sold_on = refunds.sold_on one-to-many refunds_sale_id_sold_on_fkey",
  ]);
});

test("a foreign key over periods is not a relationship: its columns overlap instead of being equal", () => {
  expect(relationships("more.stays")).toEqual([]);
  expect(relationships("more.rooms")).toEqual([]);
});

test("a table that is not served is neither a target nor a junction", () => {
  expect(relationships("shop.entries")).toEqual([]);
  expect(JSON.stringify(shop().table("shop.films").relationships)).not.toContain("hidden");
});

test("a function of one row that returns rows of a served table is a computed relationship", () => {
  const computed = shop()
    .table("shop.films")
    .relationships.filter(({ kind }) => kind === "computed");
  expect(computed).toEqual([
    {
      kind: "computed",
      isToOne: true,
      target: { schema: "shop", name: "actors" },
      function: { schema: "shop", name: "director" },
    },
    {
      kind: "computed",
      isToOne: true,
      target: { schema: "shop", name: "films" },
      function: { schema: "shop", name: "sequel" },
    },
    {
      kind: "computed",
      isToOne: false,
      target: { schema: "shop", name: "actors" },
      function: { schema: "helpers", name: "crew" },
    },
  ]);
});

test("a function of one row that returns a value is a computed field, first from the table's schema", () => {
  const fields = [...shop().table("shop.films").computedFields.values()];
  expect(fields.map((field) => [field.name, field.function, field.type, field.comment])).toEqual([
    ["rating", '"shop"."rating"', "integer", null],
    ["summary", '"shop"."summary"', "text", null],
    ["title", '"shop"."title"', "character varying", "What it is called."],
    ["words", '"helpers"."words"', "text[]", null],
  ]);
});

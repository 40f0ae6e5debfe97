import { expect, test } from "vitest";
import { useCatalog } from "../../support/catalog.ts";

const shop = useCatalog(
  `
  create schema shop;
  create schema hidden;
  create table hidden.stock (id int primary key, amount int constraint stock_amount check (amount >= 0));
  comment on constraint stock_amount on hidden.stock is 'nothing is left';
  create table hidden.counted (id int constraint counted_id check (id > 0));
  create view shop.stock as select * from hidden.stock;

  create type shop.state as enum ('new', 'sold');
  create table shop.things (
    id int primary key,
    owner_id int constraint things_owner references shop.things,
    gone int,
    name text not null constraint things_name check (char_length(name) between 1 and 20),
    email text,
    price int,
    discount int,
    state shop.state,
    period int4range,
    constraint things_discount check (state = 'sold' or discount < price),
    constraint things_never check (true),
    constraint things_email_price unique (email, price),
    constraint things_period exclude using gist (period with &&)
  );
  alter table shop.things drop column gone;
  create unique index things_lower_email on shop.things (lower(email)) include (state) where price > 0;
  create unique index things_mixed on shop.things (price, (lower(email) || name), discount, upper(name));
  create unique index things_row on shop.things ((things is null));
  create index things_plain on shop.things (name);
  comment on constraint things_name on shop.things is E'@name other\\nname must have 1 to 20 characters';
  comment on constraint things_owner on shop.things is '@foreignFieldName things';
  comment on index shop.things_lower_email is 'email already registered';
  comment on index shop.things_email_price is 'of the index';
  comment on constraint things_discount on shop.things is 'discount must be less than price';
  create domain shop.percent as int constraint percent_range check (value between 0 and 100);
  `,
  { schemas: ["shop"] },
);

const constraint = (name: string) => shop().catalog.constraints.get(name);

test.each([
  ["shop.things.things_pkey", ["id"], null],
  ["shop.things.things_owner", ["owner_id"], null],
  ["shop.things.things_name", ["name"], "((char_length(name) >= 1) AND (char_length(name) <= 20))"],
  [
    "shop.things.things_discount",
    ["price", "discount", "state"],
    "((state = 'sold'::shop.state) OR (discount < price))",
  ],
  ["shop.things.things_never", [], "true"],
  ["shop.things.things_email_price", ["email", "price"], null],
  ["shop.things.things_period", ["period"], null],
  ["shop.things.things_lower_email", ["email"], null],
  ["shop.things.things_mixed", ["price", "discount", "name", "email"], null],
  ["shop.things.things_row", [], null],
])("%s uses the columns %j, and its check is %j", (name, columns, check) => {
  const found = constraint(name)!;
  expect([...found.columns].sort()).toEqual([...columns].sort());
  expect(found.check).toBe(check);
});

test("the columns of a key are in its order, followed by those of expressions", () => {
  expect(constraint("shop.things.things_email_price")!.columns).toEqual(["email", "price"]);
  expect(constraint("shop.things.things_mixed")!.columns).toEqual(["price", "discount", "email", "name"]);
});

test.each([
  ["shop.things.things_name", "name must have 1 to 20 characters"],
  ["shop.things.things_discount", "discount must be less than price"],
  ["shop.things.things_lower_email", "email already registered"],
  ["shop.things.things_email_price", "of the index"],
])("the message of %s is %j", (name, message) => {
  expect(constraint(name)!.message).toBe(message);
  expect(shop().catalog.constraintMessages.get(name)).toBe(message);
});

test.each([
  ["shop.things.things_pkey", "id is already taken"],
  ["shop.things.things_mixed", "price, discount, email, name are already taken"],
  ["shop.things.things_never", "a value violates the rule things_never of things"],
  ["shop.things.things_owner", "owner_id refers to a record that does not exist"],
  ["hidden.counted.counted_id", undefined],
])("without a comment, the message of %s is %j", (name, message) => {
  expect(constraint(name)!.message).toBeNull();
  expect(shop().catalog.constraintMessages.get(name)).toBe(message);
});

test("a foreign key knows what it refers to", () => {
  const references = { schema: "shop", name: "things", columns: ["id"] };
  expect(constraint("shop.things.things_owner")!.references).toEqual(references);
  expect(constraint("shop.things.things_pkey")!.references).toBeNull();
});

test("the constraints and checks of a table behind a served view are read", () => {
  expect(constraint("hidden.stock.stock_amount")).toEqual({
    message: "nothing is left",
    columns: ["amount"],
    check: "(amount >= 0)",
    keys: [],
    references: null,
  });
  expect(shop().catalog.constraintMessages.get("hidden.stock.stock_amount")).toBe("nothing is left");
});

test("the checks of other tables are not read", () => {
  expect(constraint("hidden.counted.counted_id")).toEqual({
    ...{ message: null, columns: ["id"], check: null, keys: [] },
    references: null,
  });
});

test("a lock on such a table does not delay the read", async () => {
  const { database, read } = shop();
  await database.owner.query("begin; lock table hidden.counted in access exclusive mode");
  try {
    expect((await read()).constraints.has("hidden.counted.counted_id")).toBe(true);
  } finally {
    await database.owner.query("rollback");
  }
});

test("constraints do not include NOT NULL, plain indexes, domains and system tables", () => {
  const names = [...shop().catalog.constraints.keys()];
  expect(names.filter((name) => /not_null|things_plain|percent|^pg_|^information_schema/.test(name))).toEqual([]);
});

test("the unique index of users uses the column email", () => {
  expect(constraint("public.users.users_email_key")).toMatchObject({
    message: "email already registered",
    columns: ["email"],
  });
  expect(constraint("auth_private.accounts.accounts_username_key")).toMatchObject({
    message: "username already taken",
    columns: ["username"],
  });
});

test("constraints are frozen, and equal in two reads of an unchanged database", async () => {
  for (const found of shop().catalog.constraints.values())
    expect([Object.isFrozen(found), Object.isFrozen(found.columns)]).toEqual([true, true]);
  expect((await shop().read()).constraints).toEqual(shop().catalog.constraints);
});

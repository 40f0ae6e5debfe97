import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  // Users have a description that they may read and no index on it, and a hash that they may not read.
  trackit = await startTrackit(
    {},
    undefined,
    "alter table public.users add column about text, add column secret text; grant select (about) on public.users to trackit_user;",
  );
});
afterAll(() => trackit.stop());

const filter = "{ users(filter: { about: { isNull: true } }) { edges { node { id } } } }";
const message = async (query: string, variables = {}) => {
  const { errors } = await trackit.gql(query, { as: 1, variables });
  return errors?.map((error) => `${error.extensions.code}: ${error.message}`).join();
};
const ADVICE = "`about` has no index. Create one, or set GRAPHQL_UNINDEXED_FILTERS=on.";

test("with MIGRATE=off, a small table can be filtered and ordered by every column", async () => {
  expect(await message(filter)).toBeUndefined();
  expect(await message("{ users(orderBy: ABOUT_ASC) { edges { node { id } } } }")).toBeUndefined();
});

test("in a table that has grown, an unindexed column is refused with the reason", async () => {
  await trackit.change(`insert into users (email, full_name, bcrypt, about)
      select n || '@example.org', 'Imported', '', 'x' from generate_series(1, 10000) as n;
    analyze users`);
  await expect
    .poll(() => message(filter))
    .toBe(`VALIDATION_ERROR: Field "about" is not defined by type "UserFilter": ${ADVICE}`);
  expect(await message("{ users(orderBy: ABOUT_DESC) { edges { node { id } } } }")).toBe(
    `VALIDATION_ERROR: Value "ABOUT_DESC" does not exist in "UserOrderBy" enum: ${ADVICE}`,
  );
  expect(
    await message("query ($filter: UserFilter) { users(filter: $filter) { edges { node { id } } } }", {
      filter: { about: { isNull: true } },
    }),
  ).toContain(`Field "about" is not defined by type "UserFilter": ${ADVICE}`);
  expect(
    await message("query ($order: [UserOrderBy!]) { users(orderBy: $order) { edges { node { id } } } }", {
      order: ["ABOUT_DESC"],
    }),
  ).toContain(`Value "ABOUT_DESC" does not exist in "UserOrderBy" enum: ${ADVICE}`);
});

test("the names of columns that callers cannot read are not confirmed", async () => {
  expect(await message("{ users(filter: { secret: { isNull: true } }) { edges { node { id } } } }")).toBe(
    'VALIDATION_ERROR: Field "secret" is not defined by type "UserFilter".',
  );
});

test("an unknown operator is refused with those that there are", async () => {
  expect(await message('{ users(filter: { email: { eq: "a" } }) { totalCount } }')).toMatch(
    /^VALIDATION_ERROR: Field "eq" is not defined by type "StringFilter": the operators are isNull, equalTo, .*\bin, .*startsWith.*\.$/,
  );
  expect(
    await message("query ($filter: UserFilter) { users(filter: $filter) { totalCount } }", {
      filter: { id: { eq: 1 } },
    }),
  ).toContain('Field "eq" is not defined by type "IDFilter": the operators are isNull, equalTo, ');
});

test("an indexed column, and a column of a table that is small, can be filtered by", async () => {
  expect(await message('{ users(filter: { email: { equalTo: "a" } }) { edges { node { id } } } }')).toBeUndefined();
  expect(await message('{ projects(filter: { name: { equalTo: "a" } }) { edges { node { id } } } }')).toBeUndefined();
});

test("in a table that has shrunk, every column can be filtered by again", async () => {
  await trackit.change("delete from users where full_name = 'Imported'; analyze users");
  await expect.poll(() => message(filter)).toBeUndefined();
});

test("GRAPHQL_UNINDEXED_FILTERS decides for all tables", async () => {
  const off = await startTrackit({ GRAPHQL_UNINDEXED_FILTERS: "off" });
  try {
    const { errors } = await off.gql('{ projects(filter: { name: { equalTo: "a" } }) { edges { node { id } } } }');
    expect(errors![0]!.message).toContain("`name` has no index");
  } finally {
    await off.stop();
  }
});

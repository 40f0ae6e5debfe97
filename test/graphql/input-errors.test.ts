import { beforeAll, expect, test, vi } from "vitest";
import { useService } from "../support/http-client.ts";

const { gql, article, sql } = useService();

const DDL = `
  create table public.orders (
    id bigint generated always as identity primary key,
    code text not null unique,
    total int constraint orders_total_check check (total >= 0),
    starts date, ends date,
    constraint orders_period check (starts <= ends)
  );
  comment on constraint orders_period on public.orders is 'ends must not be before starts';
  comment on column public.orders.total is E'@name sum\\nThe sum.';
  alter table public.orders enable row level security;
  create policy "everyone" on public.orders using (true) with check (true);
  grant select, insert (code, total, starts, ends), update (code, total, starts, ends) on public.orders to authenticated;
  insert into public.orders (code) values ('A'), ('B');`;

beforeAll(async () => {
  await sql(DDL);
  // Both the schema and the catalog, which has the constraints, know the table a moment later.
  const fields = async () => {
    const { errors } = await gql("mutation { updateOrder(id: 1, input: { sum: -1 }) { id } }", { as: "ada" });
    return (errors?.[0]?.extensions as any)?.fields;
  };
  await vi.waitFor(async () => expect(await fields()).toHaveLength(1), { timeout: 120_000, interval: 50 });
}, 40_000);

/** Message, code and fields of the only error. */
async function failure(query: string, as?: "ada", variables?: Record<string, unknown>) {
  const { errors = [] } = await gql(query, { ...(as && { as }), ...(variables && { variables }) });
  expect(errors).toHaveLength(1);
  const { message, extensions } = errors[0] as any;
  return { message, code: extensions.code, fields: extensions.fields };
}

const NAME = { field: "name", message: "name must have 1 to 200 characters", code: "VALIDATION_ERROR" };
const EMAIL = { field: "email", message: "email must be a valid address", code: "VALIDATION_ERROR" };
const TAKEN = { field: "email", message: "email already registered", code: "RESOURCE_CONFLICT" };
const AGE = { field: "age", message: "age must be from 0 to 150", code: "VALIDATION_ERROR" };

test("createUser reports every invalid field at once, with message, code and constraint", async () => {
  expect(await failure('mutation { createUser(input: { name: " ", email: "x", age: 700 }) { id } }')).toEqual({
    message: expect.stringContaining("name must have 1 to 200 characters"),
    code: "VALIDATION_ERROR",
    fields: expect.arrayContaining([
      { ...NAME, constraint: "users_name_length" },
      { ...EMAIL, constraint: "users_email_format" },
      { ...AGE, constraint: "users_age_range" },
    ]),
  });
});

test("a duplicate says which field, also beside other faults", async () => {
  const taken = { ...TAKEN, constraint: "users_email_key" };
  expect(await failure('mutation { createUser(input: { name: "Ada", email: "ADA@example.com" }) { id } }')).toEqual({
    message: "email already registered",
    code: "RESOURCE_CONFLICT",
    fields: [taken],
  });
  const { code, fields } = await failure(
    'mutation { createUser(input: { name: "", email: "ADA@example.com" }) { id } }',
  );
  expect(code).toBe("VALIDATION_ERROR");
  expect(fields).toEqual(expect.arrayContaining([taken, { ...NAME, constraint: "users_name_length" }]));
});

test("updateArticle names the fields, with variables, an alias and a fragment", async () => {
  const id = await article({ author: 1 });
  const query = `mutation ($id: ID!, $input: UpdateArticleInput!) { ...change }
    fragment change on Mutation { changed: updateArticle(id: $id, input: $input) { id } }`;
  const { code, fields } = await failure(query, "ada", { id, input: { title: "abc", tags: [""] } });
  expect(code).toBe("VALIDATION_ERROR");
  expect(fields).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ field: "title", message: "title must have at least 5 characters" }),
      expect.objectContaining({ field: "tags", code: "VALIDATION_ERROR" }),
    ]),
  );
});

test("updateUser may keep the user's own e-mail while another field is invalid", async () => {
  const { fields } = await failure(
    'mutation { updateUser(id: 1, input: { email: "ada@example.com", age: 200 }) { id } }',
    "ada",
  );
  expect(fields).toEqual([{ ...AGE, constraint: "users_age_range" }]);
});

test("generated mutations name the fields of a rule over several columns, and a CHECK without a comment", async () => {
  const input = '{ code: "A", sum: -1, starts: "2026-02-01", ends: "2026-01-01" }';
  const { fields } = await failure(`mutation { createOrder(input: ${input}) { id } }`, "ada");
  const period = { message: "ends must not be before starts", code: "VALIDATION_ERROR", constraint: "orders_period" };
  expect(fields).toEqual(
    expect.arrayContaining([
      { field: "code", message: "code is already taken", code: "RESOURCE_CONFLICT", constraint: "orders_code_key" },
      {
        field: "sum",
        message: "total violates the rule orders_total_check of orders",
        code: "VALIDATION_ERROR",
        constraint: "orders_total_check",
      },
      { field: "starts", ...period },
      { field: "ends", ...period },
    ]),
  );
  expect(fields).toHaveLength(4);
});

test("an update that violates two rules reports both, and its own values are not taken", async () => {
  const own = await failure('mutation { updateOrder(id: 1, input: { code: "A", sum: -1 }) { id } }', "ada");
  expect(own.fields.map(({ field }: any) => field)).toEqual(["sum"]);
  const other = await failure('mutation { updateOrder(id: 1, input: { code: "B", sum: -1 }) { id } }', "ada");
  expect(other.fields.map(({ field }: any) => field).sort()).toEqual(["code", "sum"]);
});

test("an argument of a function is named", async () => {
  expect(await failure('mutation { createComment(articleId: 1, content: "") { id } }', "ada")).toMatchObject({
    code: "VALIDATION_ERROR",
    fields: [{ field: "content", constraint: "comments_content_text" }],
  });
});

test("an error of other rows has no fields", async () => {
  expect((await failure("mutation { deleteUser(id: 1) }", "ada")).fields).toBeUndefined();
});

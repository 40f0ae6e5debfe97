import { beforeAll, describe, expect, test, vi } from "vitest";
import { type Client, errorTexts, useService } from "../support/http-client.ts";

const client = useService();
const { article, content, data, errors, gql, post, sql } = client;
const strict = useService({ GRAPHQL_INTERNAL_STATUS: "400", DB_STATEMENT_TIMEOUT: "3000" });

/** Functions that fail: `fail` raises an error; `run` executes a statement that fails in Postgres itself. */
const FUNCTIONS = `
  create function public.fail(state text, message text) returns text language plpgsql stable as $$
    begin raise exception using errcode = state, message = message; end $$;
  create function public.fail_to_write(state text) returns text language plpgsql volatile as $$
    begin
      insert into public.users (name, email) values ('Written', 'written@example.com');
      raise exception using errcode = state, message = 'raised after a write';
    end $$;
  create function public.run(statement text) returns text language plpgsql stable as $$
    declare result text;
    begin execute statement into result; return result; end $$;
  create function public.run_write(statement text) returns boolean language plpgsql volatile as $$
    begin execute statement; return true; end $$;
  create function public.nothing() returns text language sql stable as 'select null::text';
  comment on function public.nothing() is '@notNull';

  create table public.rooms (id bigint primary key, parent bigint references public.rooms deferrable initially deferred,
    hours int4range not null, exclude using gist (hours with &&));
  create table public.nosy (id bigint primary key, secret text constraint nosy_secret_is_odd check (secret <> 'even'));
  create table public.days (day date primary key) partition by range (day);
  create view public.late_rooms as select id, hours from public.rooms where id > 1000 with check option;
  grant insert on public.rooms, public.nosy, public.days, public.late_rooms to anon;
  revoke execute on function public.fail, public.fail_to_write, public.run, public.run_write, public.nothing from public;
  grant execute on function public.fail, public.fail_to_write, public.run, public.run_write, public.nothing to anon, authenticated;`;

async function addFunctions({ sql, errors }: Client): Promise<void> {
  await sql(FUNCTIONS);
  await vi.waitFor(
    async () => expect(await errors("{ nothing }")).not.toEqual([expect.stringMatching(/Cannot query field/)]),
    {
      timeout: 120_000,
      interval: 50,
    },
  );
}
beforeAll(() => Promise.all([addFunctions(client), addFunctions(strict)]));

const FAIL = "query ($state: String!, $message: String!) { fail(state: $state, message: $message) }";
const RUN = "query ($statement: String!) { run(statement: $statement) }";
const RUN_WRITE = "mutation ($statement: String!) { runWrite(statement: $statement) }";

describe("an operation that fails", () => {
  test("has errors with message, code, locations and path, and nothing else", async () => {
    const answer = await gql("mutation {\n  gone: publishArticle(id: 999999) { id }\n}", { as: "ada" });
    expect(answer.status).toBe(200);
    expect(answer.data).toBeNull();
    expect(answer.errors).toEqual([
      {
        message: "article not found",
        path: ["gone"],
        locations: [{ line: 2, column: 3 }],
        extensions: { code: "RESOURCE_NOT_FOUND" },
      },
    ]);
  });

  test("has no data if it cannot be executed", async () => {
    const answer = await gql("{ nowhere }");
    expect(answer).not.toHaveProperty("data");
    expect(answer.errors).toEqual([
      {
        message: 'Cannot query field "nowhere" on type "Query".',
        locations: [{ line: 1, column: 3 }],
        extensions: { code: "VALIDATION_ERROR" },
      },
    ]);
  });

  test("has null for a nullable field that fails and data for the other fields", async () => {
    const query = `{ bad: fail(state: "P0002", message: "no such thing") article(id: 1) { id } users(limit: 1) { id } }`;
    expect(await gql(query)).toMatchObject({
      status: 200,
      data: { bad: null, article: { id: "1" }, users: [{ id: "1" }] },
      errors: [{ message: "no such thing", path: ["bad"], extensions: { code: "RESOURCE_NOT_FOUND" } }],
    });
  });

  test("has one error for each field that fails", async () => {
    const query = `{ a: fail(state: "P0002", message: "first") b: fail(state: "P0001", message: "second") article(id: 1) { id } }`;
    const answer = await gql(query);
    expect(answer.data).toEqual({ a: null, b: null, article: { id: "1" } });
    expect(errorTexts(answer).toSorted()).toEqual(["RESOURCE_NOT_FOUND: first", "VALIDATION_ERROR: second"]);
  });

  test("has null for a row if a function of the row fails, because both are one query", async () => {
    const query = "{ user(id: 1) { name avatar(size: 0) } other: user(id: 2) { name } }";
    await sql("update users set avatar_url = 'https://example.com/ada.png' where id = 1");
    expect(await gql(query)).toMatchObject({
      data: { user: null, other: { name: "Bob Kahn" } },
      errors: [{ message: "size must be from 1 to 2048", path: ["user"], extensions: { code: "VALIDATION_ERROR" } }],
    });
  });
});

describe("an error raised by a function is sent with the code of its SQLSTATE and its message", () => {
  test.each([
    ["28000", "AUTH_REQUIRED", "login required"],
    ["42501", "AUTH_REQUIRED", "login required"], // the caller is anonymous
    ["P0002", "RESOURCE_NOT_FOUND"],
    ["42P01", "RESOURCE_NOT_FOUND"],
    ["42703", "RESOURCE_NOT_FOUND"],
    ["42883", "RESOURCE_NOT_FOUND"],
    ["23505", "RESOURCE_CONFLICT"],
    ["23503", "RESOURCE_CONFLICT"],
    ["23001", "RESOURCE_CONFLICT"],
    ["23P01", "RESOURCE_CONFLICT"],
    ["40001", "RESOURCE_CONFLICT"],
    ["40P01", "RESOURCE_CONFLICT"],
    ["55P03", "RESOURCE_CONFLICT"],
    ["23502", "VALIDATION_ERROR"],
    ["23514", "VALIDATION_ERROR"],
    ["22023", "VALIDATION_ERROR"],
    ["22P02", "VALIDATION_ERROR"],
    ["428C9", "VALIDATION_ERROR"],
    ["P0001", "VALIDATION_ERROR"],
    ["44000", "VALIDATION_ERROR"],
    ["20000", "VALIDATION_ERROR"],
    ["0L000", "AUTH_REQUIRED", "login required"],
    ["25006", "AUTH_REQUIRED", "login required"],
    ["54001", "VALIDATION_ERROR"],
    ["57014", "INTERNAL_ERROR"],
    ["53200", "INTERNAL_ERROR"],
    ["57P03", "INTERNAL_ERROR"],
    ["08006", "INTERNAL_ERROR"],
  ])("%s → %s", async (state, code, message = "in its own words") => {
    expect(await errors(FAIL, { variables: { state, message: "in its own words" } })).toEqual([`${code}: ${message}`]);
  });

  test("42501 → PERMISSION_DENIED for a signed-in caller", async () => {
    const variables = { state: "42501", message: "not you" };
    expect(await errors(FAIL, { variables, as: "ada" })).toEqual(["PERMISSION_DENIED: not you"]);
  });
});

describe("an error raised by Postgres itself", () => {
  test.each([
    ["select 1 / 0", "VALIDATION_ERROR: invalid value"],
    ["select 'x'::integer", "VALIDATION_ERROR: invalid value"],
    // The function is broken for every caller.
    ["select * from public.gone", 'RESOURCE_NOT_FOUND: relation "public.gone" does not exist'],
    ["select gone from public.users", 'RESOURCE_NOT_FOUND: column "gone" does not exist'],
    ["select public.gone()", "RESOURCE_NOT_FOUND: function public.gone() does not exist"],
    ["select * from auth_private.accounts", "AUTH_REQUIRED: login required"],
  ])("%s", async (statement, error) => {
    const { text, json } = await post({ query: RUN, variables: { statement } });
    expect(errorTexts(json)).toEqual([error]);
    expect(text).not.toMatch(/auth_private|accounts|division/);
  });

  test.each([
    ["insert into users (name, email) values ('X', 'ADA@example.com')", "RESOURCE_CONFLICT: email already registered"],
    [
      "insert into users (name, email) values (null, 'x@y.example')",
      "VALIDATION_ERROR: a value violates a constraint of the database",
    ],
    ["insert into users (name, email) values ('X', 'x')", "VALIDATION_ERROR: email must be a valid address"],
    ["insert into nosy values (1, 'even')", "VALIDATION_ERROR: secret violates the rule nosy_secret_is_odd of nosy"],
    [
      "insert into rooms values (1, null, '[1,3]'), (2, null, '[2,4]')",
      "RESOURCE_CONFLICT: this conflicts with existing data",
    ],
    ["insert into days values ('2030-01-01')", "VALIDATION_ERROR: the table has no partition for this row"],
    [
      "insert into late_rooms values (8, '[8,9]')",
      "VALIDATION_ERROR: the view would not show this row, and its check option requires it",
    ],
    [
      "insert into users (id, name, email) values (99, 'X', 'x@y.example')",
      "VALIDATION_ERROR: this field is assigned by the service",
    ],
    [
      "select set_config('transaction_read_only', 'on', true); insert into nosy values (2)",
      "AUTH_REQUIRED: login required",
    ],
    ["this is not SQL", "INTERNAL_ERROR: internal error"],
  ])("%s", async (statement, error) => {
    const before = await content();
    expect(await errors(RUN_WRITE, { variables: { statement } })).toEqual([error]);
    expect(await content()).toBe(before);
  });

  test("from a constraint that is checked at commit fails the mutation, and nothing is written", async () => {
    const statement = "insert into rooms values (7, 999, '[7,8]')";
    const answer = await gql(RUN_WRITE, { variables: { statement } });
    expect(errorTexts(answer)).toEqual(["RESOURCE_CONFLICT: parent refers to a record that does not exist"]);
    expect(answer.data).toEqual({ runWrite: null });
    expect(await sql("select from rooms where id = 7")).toEqual([]);
  });

  test("from a lock that another transaction holds is RESOURCE_CONFLICT", async () => {
    const id = await article({ author: 1 });
    await sql("begin");
    await sql("update articles set title = 'Being changed' where id = $1", id);
    try {
      const statement = `select id from articles where id = ${id} for update nowait`;
      expect(await errors(RUN_WRITE, { variables: { statement }, as: "ada" })).toEqual([
        "RESOURCE_CONFLICT: another request is changing the same data; try again",
      ]);
    } finally {
      await sql("rollback");
    }
  });

  test("undoes what the function wrote before", async () => {
    const before = await content();
    const query = 'mutation { failToWrite(state: "P0001") }';
    expect(await errors(query)).toEqual(["VALIDATION_ERROR: raised after a write"]);
    expect(await content()).toBe(before);
  });

  test("prevents the deletion of a user who has articles", async () => {
    expect(await errors("mutation { deleteUser(id: 1) }", { as: "ada" })).toEqual([
      expect.stringMatching(/^RESOURCE_CONFLICT: rows of (articles|comments) refer to this record$/),
    ]);
  });
});

describe("an unexpected error is INTERNAL_ERROR with the request id", () => {
  const variables = { state: "XX000", message: "the secret is in table vault, line 7" };
  const ask = (headers: Record<string, string> = {}) => post({ query: FAIL, variables }, headers);

  test("and its text is logged and not sent", async () => {
    const { status, text, json, headers } = await ask();
    expect(status).toBe(200);
    expect(text).not.toMatch(/secret|vault|XX000|line 7|\.ts|stack/);
    expect(json).toEqual({
      data: { fail: null },
      errors: [
        {
          message: "internal error",
          path: ["fail"],
          locations: [{ line: 1, column: 46 }],
          extensions: { code: "INTERNAL_ERROR", requestId: headers.get("x-request-id") },
        },
      ],
    });
  });

  test("which is the id that the client has sent", async () => {
    const { json } = await ask({ "x-request-id": "my-request.7" });
    expect(json.errors[0].extensions.requestId).toBe("my-request.7");
  });

  test("also for null in a non-null field", async () => {
    const answer = await gql("{ nothing }");
    expect(answer).toMatchObject({
      status: 200,
      data: null,
      errors: [{ message: "internal error", path: ["nothing"] }],
    });
    expect(answer.errors![0]!.extensions).toEqual({
      code: "INTERNAL_ERROR",
      requestId: answer.headers.get("x-request-id"),
    });
  });

  test("and with GRAPHQL_INTERNAL_STATUS=400 the status is 400 for these errors only", async () => {
    expect(await strict.gql(FAIL, { variables })).toMatchObject({
      status: 400,
      errors: [{ extensions: { code: "INTERNAL_ERROR" } }],
    });
    expect((await strict.gql("{ me { id } }")).status).toBe(200);
    expect((await strict.gql("{ nowhere }")).status).toBe(200);
    expect((await strict.gql("{ article(id: 1) { id } }")).status).toBe(200);
  });
});

describe("a statement that exceeds DB_STATEMENT_TIMEOUT", () => {
  test("is cancelled, and the error says so", async () => {
    const answer = await strict.gql(RUN, { variables: { statement: "select pg_sleep(20)" } });
    expect(errorTexts(answer)).toEqual(["INTERNAL_ERROR: the request took too long and was cancelled"]);
    expect(answer.errors![0]!.extensions.requestId).toBe(answer.headers.get("x-request-id"));
  });

  test("leaves the other fields of the operation unaffected", async () => {
    const query = `{ slow: run(statement: "select pg_sleep(20)") article(id: 1) { id } }`;
    expect(await strict.gql(query)).toMatchObject({ data: { slow: null, article: { id: "1" } } });
  });

  test("is undone", async () => {
    const statement = "insert into users (name, email) values ('Slow', 'slow@example.com'); select pg_sleep(20)";
    const before = await strict.content();
    expect(await strict.errors(RUN_WRITE, { variables: { statement } })).toEqual([
      "INTERNAL_ERROR: the request took too long and was cancelled",
    ]);
    expect(await strict.content()).toBe(before);
  });
});

test("each error condition of the contract produces an error", async () => {
  const conditions = [
    await errors('mutation { createUser(input: { name: "X", email: "ada@example.com" }) { id } }'),
    await errors("{ me { id } }"),
    await errors("mutation { publishArticle(id: 999999) { id } }", { as: "ada" }),
    await errors('mutation { updateArticle(id: 1, input: { title: "Title" }) { id } }', { as: "bob" }),
  ];
  expect(conditions.flat().map((error) => error.split(":", 1)[0])).toEqual([
    "RESOURCE_CONFLICT",
    "AUTH_REQUIRED",
    "RESOURCE_NOT_FOUND",
    "PERMISSION_DENIED",
  ]);
  expect(await data('mutation { createArticle(input: { title: "x", content: "" }) { success } }')).toEqual({
    createArticle: { success: false },
  });
});

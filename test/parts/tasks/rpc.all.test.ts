import { describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const DDL = `
  create table public.notes (id bigint generated always as identity primary key, text text unique, by bigint);
  grant select, insert on public.notes to anon, authenticated;
  create function public.add_note(text text) returns public.notes language sql as
    'insert into public.notes (text, by) values (text, auth.uid()) returning *';
  create function public.all_notes() returns setof public.notes language sql stable as 'select * from public.notes order by id';
  create function public.role_of() returns text language sql stable as 'select current_user::text';
  create function public.slow(seconds float) returns void language sql as 'select pg_sleep(seconds)';
  create function public.header_of(name text) returns text language sql stable as
    $$ select current_setting('request.headers')::json ->> name $$;
  create function public.strictly() returns text language sql stable set default_transaction_isolation = 'serializable' as
    $$ select current_setting('transaction_isolation') $$;
  create function public.refuse() returns void language plpgsql as
    $$ begin raise exception 'not today' using hint = 'Come back tomorrow.', detail = 'It is too late.'; end $$;
  create function public.limits() returns text language sql stable as
    $$ select current_setting('statement_timeout') $$;
  create function public.own_limit() returns text language sql stable set statement_timeout = '7s' as
    $$ select current_setting('statement_timeout') $$;
  create function public.long_text() returns text language sql volatile as $$ select repeat('x', 100000) $$;
  grant execute on all functions in schema public to anon, authenticated, service_role`;

const RUNS = { taskAnonymousRetention: 3600, TASK_CONCURRENCY: "2" };
const { rest, failure, service, sql } = useRest(
  { ...RUNS, taskMaxPending: 3, DB_STATEMENT_TIMEOUT: "3000", dbMaxResultBytes: 50_000 },
  DDL,
);
const withoutV1 = useRest({ ...RUNS, API_V1_STATUS: "retired" }, DDL);
const rollsBack = useRest({ ...RUNS, DB_TX_END: "rollback" }, DDL);
const signedIn = useRest({}, DDL);
const proxied = useRest(
  {
    ...{ ...RUNS, taskMaxPending: 1, TRUST_PROXY: "loopback" },
    ...{ DB_STATEMENT_TIMEOUT: "0", dbAnonStatementTimeout: 0 },
  },
  DDL,
);

const ASYNC = "respond-async";
const accepted = async (path: string, sent: RestSent) => {
  const answer = await rest(path, { prefer: ASYNC, ...sent });
  expect([answer.status, answer.text]).toEqual([202, expect.any(String)]);
  return answer;
};

/** Waits until the task has ended, and returns it as its caller sees it. */
async function ended(address: string, as?: "ada" | "bob"): Promise<any> {
  const headers = as ? { authorization: `Bearer ${service().token(as)}` } : {};
  let task: any;
  await expect
    .poll(
      async () => {
        task = await (await fetch(`${service().url}${address}`, { headers })).json();
        return task.status;
      },
      { timeout: 120_000, interval: 50 },
    )
    .toMatch(/succeeded|failed|cancelled/);
  return task;
}

const outcome = async (path: string, sent: RestSent) =>
  ended((await accepted(path, sent)).headers.get("location")!, sent.as as "ada");

test("if version 1 is retired, the URL of a task is one of version 2", async () => {
  const { json, headers } = await withoutV1.rest("rpc/role_of", { prefer: ASYNC, body: {} });
  const self = `/api/v2/tasks/${json.taskId}`;
  expect([headers.get("location"), json._links.self.href, json._links.cancel.href]).toEqual([
    self,
    self,
    `${self}/cancel`,
  ]);
  expect((await fetch(`${withoutV1.service().url}${self}`)).status).toBe(200);
});

describe("a function called with Prefer: respond-async", () => {
  test("is accepted as a task", async () => {
    const { headers, json } = await accepted("rpc/slow", {
      body: { seconds: 0 },
      prefer: "count=exact, Respond-Async",
    });
    expect(json).toEqual({
      taskId: expect.any(String),
      status: "pending",
      estimate: { seconds: expect.any(Number) },
      _links: {
        self: { href: `/tasks/${json.taskId}` },
        cancel: { href: `/tasks/${json.taskId}/cancel`, method: "POST" },
      },
    });
    expect(headers.get("location")).toBe(`/tasks/${json.taskId}`);
    expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(headers.get("preference-applied")).toBe("count=exact, respond-async");
    await ended(`/tasks/${json.taskId}`);
  });

  test("has the result that the request would have returned, with the identity of its caller", async () => {
    const note = await outcome("rpc/add_note", { as: "ada", body: { text: "first" } });
    expect([note.status, note.result]).toEqual(["succeeded", { id: 1, text: "first", by: 1 }]);
    const sent = { as: "bob", body: {} } as const;
    expect((await outcome("rpc/all_notes?select=text&id=eq.1", sent)).result).toEqual([{ text: "first" }]);
    expect((await outcome("rpc/role_of", sent)).result).toBe("authenticated");
    expect((await outcome("rpc/role_of", { body: {} })).result).toBe("anon");
    expect((await outcome("rpc/slow", { body: { seconds: 0 } })).result).toBeNull();
  });

  test("can read the headers of the request, but not its credentials", async () => {
    const sent = (name: string) => ({ as: "ada", body: { name }, headers: { "x-colour": "blue" } }) as const;
    expect((await outcome("rpc/header_of", sent("x-colour"))).result).toBe("blue");
    expect((await outcome("rpc/header_of", sent("authorization"))).result).toBeNull();
    const { json } = await accepted("rpc/slow", { as: "ada", body: { seconds: 30 } });
    const [{ request }] = await sql("select request from tasks.tasks where id = $1", json.taskId);
    expect(request).toMatchObject({ method: "POST", url: "/rest/v1/rpc/slow", body: '{"seconds":30}' });
    expect(Object.keys(request.headers)).not.toEqual(expect.arrayContaining(["authorization", "apikey"]));
    expect(JSON.stringify(request)).not.toContain("eyJ");
    const headers = { authorization: `Bearer ${service().token("ada")}` };
    await fetch(`${service().url}/tasks/${json.taskId}/cancel`, { method: "POST", headers });
  });

  test("keeps its isolation level", async () => {
    expect((await outcome("rpc/strictly", { body: {} })).result).toBe("serializable");
  });

  test("runs under taskTimeout if the user is signed in, and under the limit of a request otherwise", async () => {
    expect((await outcome("rpc/limits", { as: "ada", body: {} })).result).toBe("10min");
    expect((await outcome("rpc/limits", { body: {} })).result).toBe("3s");
    expect((await outcome("rpc/own_limit", { as: "ada", body: {} })).result).toBe("7s");
  });

  test("runs under the statement_timeout of its role, if there is one", async () => {
    const limit = (clause: string) =>
      sql(
        `do $$ begin execute format('alter role authenticated in database %I ${clause}', current_database()); end $$`,
      );
    await limit("set statement_timeout = ''8s''");
    await sql("notify pgrst, 'reload schema'");
    await expect.poll(async () => (await rest("rpc/limits", { as: "ada", body: {} })).json).toBe("8s");
    expect((await outcome("rpc/limits", { as: "ada", body: {} })).result).toBe("8s");
    await limit("reset statement_timeout");
    await sql("notify pgrst, 'reload schema'");
    await expect.poll(async () => (await rest("rpc/limits", { as: "ada", body: {} })).json).toBe("3s");
  });

  test("may run longer than a request, and have a larger result", async () => {
    expect((await outcome("rpc/slow", { as: "ada", body: { seconds: 3.5 } })).status).toBe("succeeded");
    expect((await outcome("rpc/long_text", { body: {} })).result).toHaveLength(100_000);
  });

  test.each([
    [
      "refuse",
      {},
      { status: 400, code: "P0001", message: "not today", details: "It is too late.", hint: "Come back tomorrow." },
    ],
    ["add_note", { text: "twice" }, { status: 409, code: "23505" }],
  ])("that fails has the error that the request would have returned: %s", async (name, body, error) => {
    await sql("insert into notes (text) values ('twice') on conflict do nothing");
    expect(await outcome(`rpc/${name}`, { body })).toMatchObject({ status: "failed", error });
  });

  test("is rolled back if it does not return exactly one row for an object", async () => {
    const before = await sql("select from notes");
    const sent = { as: "ada", body: {}, headers: { accept: "application/vnd.pgrst.object+json" } } as const;
    await sql("insert into notes (text) values ('one'), ('two')");
    expect(await outcome("rpc/all_notes", sent)).toMatchObject({
      status: "failed",
      error: { status: 406, code: "PGRST116" },
    });
    expect(await sql("select from notes")).toHaveLength(before.length + 2);
  });

  test("is rejected at once if it cannot be called", async () => {
    const sent = { body: {}, prefer: ASYNC };
    expect(await failure("rpc/no_such_function", sent)).toEqual([404, "PGRST202"]);
    expect(await failure("rpc/add_note", { ...sent, body: "{" })).toEqual([400, "PGRST102"]);
    expect(await failure("rpc/all_notes?nonsense=eq.1", sent)).toEqual([400, "42703"]);
  });

  test("is rejected if the caller has too many unfinished tasks", async () => {
    const addresses: string[] = [];
    const sent = { as: "ada", body: { seconds: 30 } } as const;
    for (let i = 0; i < 3; i++) addresses.push((await accepted("rpc/slow", sent)).headers.get("location")!);
    const { status, headers, json } = await rest("rpc/slow", { ...sent, prefer: ASYNC });
    expect([status, headers.get("retry-after"), json]).toEqual([
      429,
      "5",
      {
        code: "PT429",
        message: "you have 3 unfinished tasks: wait until one has ended, or cancel one",
        details: null,
        hint: null,
      },
    ]);
    const cancel = { method: "POST", headers: { authorization: `Bearer ${service().token("ada")}` } };
    for (const address of addresses) await fetch(`${service().url}${address}/cancel`, cancel);
  });
});

test("anonymous callers have a quota per address, as the rate limit counts them: behind a proxy, and per IPv6 network", async () => {
  const tasks: string[] = [];
  const from = async (address: string) => {
    const sent = { body: { seconds: 600 }, prefer: ASYNC, headers: { "x-forwarded-for": address } };
    const { status, json } = await proxied.rest("rpc/slow", sent);
    if (status === 202) tasks.push(json.taskId);
    return status;
  };
  expect(await from("2001:db8:0:1::7")).toBe(202);
  expect(await from("2001:db8:0:1:ffff::8")).toBe(429);
  expect(await from("2001:db8:0:2::7")).toBe(202);
  expect(await from("203.0.113.7")).toBe(202);
  expect(await from("203.0.113.7")).toBe(429);
  expect(await from("203.0.113.8")).toBe(202);
  for (const id of tasks) await fetch(`${proxied.service().url}/tasks/${id}/cancel`, { method: "POST" });
});

describe("Prefer: respond-async is ignored", () => {
  test.each([
    ["rpc/all_notes", {}],
    ["notes", {}],
    ["notes", { body: { text: "at once" } }],
    ["rpc/role_of", { body: {}, headers: { accept: "text/plain" } }],
  ] as [string, RestSent][])("for %s %j", async (path, sent) => {
    const { status, headers } = await rest(path, { ...sent, prefer: `${ASYNC}, handling=strict` });
    expect([
      Math.floor(status / 100),
      headers.get("preference-applied"),
      headers.get("location")?.startsWith("/tasks") ?? false,
    ]).toEqual([2, "handling=strict", false]);
  });

  test("for anonymous callers, unless the database is embedded", async () => {
    const { status, headers, json } = await signedIn.rest("rpc/role_of", { body: {}, prefer: ASYNC });
    expect([status, headers.get("preference-applied"), json]).toEqual([200, null, "anon"]);
    const list = await fetch(`${signedIn.service().url}/articles`, { headers: { prefer: ASYNC } });
    expect([list.status, list.headers.get("preference-applied")]).toEqual([200, null]);
    expect((await signedIn.rest("rpc/role_of", { as: "ada", body: {}, prefer: ASYNC })).status).toBe(202);
    expect((await signedIn.rest("rpc/role_of", { as: "service", body: {}, prefer: ASYNC })).status).toBe(202);
    expect(await signedIn.sql("select role from tasks.tasks order by role")).toEqual([
      { role: "authenticated" },
      { role: "service_role" },
    ]);
  });

  test("if transactions are rolled back", async () => {
    const { status, json } = await rollsBack.rest("rpc/role_of", { body: {}, prefer: ASYNC });
    expect([status, json]).toEqual([200, "anon"]);
  });
});

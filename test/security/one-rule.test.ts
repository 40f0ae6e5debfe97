import { globSync, readFileSync } from "node:fs";
import pg from "pg";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { createTestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import type { TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { type Caller, expectedOf, headersOf, INTERFACES, sent, socketOf, startChecked } from "./interfaces.ts";

let service: TestService;
let listener: pg.Client;
const seen: any[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  listener = new pg.Client(database.url);
  await listener.connect();
  listener.on("notification", ({ payload }) => seen.push(JSON.parse(payload!)));
  await listener.query("listen seen");
  service = await startChecked(database);
  return async () => {
    await listener.end();
    await service.stop();
  };
});

const ADA = (): Caller => ({ at: service, as: "ada" });

/** Where statements run as a caller. A new place needs a row above that shows it, or runs for no caller. */
const PLACES = [
  "db/rights/checker.ts",
  "graphql/execute/engine.ts",
  "kit/test.ts",
  "parts/advisor/why/row-access.ts",
  "parts/tasks/own-handlers.ts",
  "parts/tasks/repository.ts",
  "parts/tasks/tasks.ts",
  "realtime/channel-access.ts",
  "realtime/message-policies.ts",
  "rest-gateway/resources/runner.ts",
  "rest-gateway/routes/route.ts",
  "rest-gateway/table/index.ts",
  "service/app.ts",
];

test("every place that runs statements as a caller is known", () => {
  const sources = globSync(
    "{app,cli,db,gate,graphql,identity,kit,pages,parts,plugins,realtime,rest-gateway,service}/**/*.ts",
  );
  expect(sources.filter((path) => /\.for(Role|Task)\(/.test(readFileSync(path, "utf8"))).toSorted()).toEqual(PLACES);
});

describe.each(Object.entries(INTERFACES))("%s", (name, each) => {
  const { path, use } = each;

  test("runs with the function before each request, the settings of the role, the claims and the request", async () => {
    const prepared = await each.prepare?.(service);
    seen.length = 0;
    const answer = await use({ at: service, as: "ada" }, prepared);
    // A transaction that fails tells nothing.
    if (name === "GraphQL, writing") return expect(answer).toContain("DENID");
    // A task is accepted in UTC, and runs in the time zone of its caller.
    const expected = expectedOf(each);
    const own = () => seen.find((one) => one.path === path && one.zone === expected.zone);
    await expect.poll(own, POLL).toBeDefined();
    expect(own()).toEqual({ ...expected, isolation: expect.any(String) });
  });

  test("is refused by the function, in its own words", async () => {
    const answer = await use({ at: service, as: "bob" }, await each.prepare?.(service));
    for (const part of ["You are banned", "DENID", "since today", "ask"]) expect(answer).toContain(part);
  });
});

/** A subscriber: what it has got so far, as text. */
type Subscriber = (by: Caller) => Promise<() => string>;

const SUBSCRIBERS: Readonly<Record<string, Subscriber>> = {
  "a stream of a table": async (by) => {
    const client = new EventStreamClient(`${service.url}/rest/v1/notes`, { headers: headersOf(by) });
    await client.take(1, "snapshot");
    return () => client.text;
  },
  "a subscription of GraphQL": async (by) => {
    const subscription = await socketOf(by).subscribe("subscription { onNoteCreated { body } }");
    return () => JSON.stringify([subscription.events, subscription.error]);
  },
  "a channel": async (by) => {
    const client = new ChannelClient(service, "127.0.0.1");
    const received: string[] = [];
    client.socket.on("message", (data) => received.push(String(data)));
    await client.open();
    const config = { postgres_changes: [{ event: "*", schema: "public", table: "notes" }] };
    await client.ask("notes", "phx_join", { config, access_token: service.token(by.as) });
    await expect.poll(() => received.join(), POLL).toContain("Subscribed to PostgreSQL");
    return () => received.join();
  },
};

test.each(Object.entries(SUBSCRIBERS))(
  "%s gets the changes that the settings of the function show its caller, until the function refuses",
  async (name, subscribe) => {
    const { owner } = service.database;
    const write = (to: number, body: string) =>
      owner.query("insert into notes (owner_id, body) values ($1, $2)", [to, `${body} of ${name}`]);
    const received = await subscribe(ADA());
    await write(2, "hidden");
    await write(1, "shown");
    await expect.poll(received, POLL).toContain(`shown of ${name}`);
    expect(received()).not.toContain("hidden");
    await owner.query("insert into checks.banned values ('1')");
    onTestFinished(async () => {
      await owner.query("delete from checks.banned where sub = '1'");
    });
    await write(1, "later");
    await expect.poll(received, POLL).toContain("You are banned");
    expect(received()).not.toContain("later");
  },
);

test.each([
  [
    "/rest/v1/rpc/deny",
    { body: {} },
    '400 {"code":"DENID","message":"You are no member","details":"of the club","hint":"join"}',
  ],
  [
    "/rest/v1/rpc/refuse",
    { body: {} },
    '400 {"code":"P0001","message":"Too late","details":"It is noon","hint":"come earlier"}',
  ],
  ["/rest/v1/rpc/forbid", { body: {} }, '403 {"code":"PT403","message":"Not this way","details":null,"hint":null}'],
] as const)("an error of the application reaches %s whole", async (path, init, expected) => {
  expect(await sent(ADA(), path, init)).toBe(expected);
});

test.each([
  ["deny", { message: "You are no member", extensions: { code: "DENID", detail: "of the club", hint: "join" } }],
  [
    "refuse",
    {
      message: "Too late",
      extensions: { code: "VALIDATION_ERROR", detail: "It is noon", hint: "come earlier" },
    },
  ],
  ["forbid", { message: "Not this way", extensions: { code: "PT403" } }],
])("an error of the application reaches GraphQL whole: %s", async (name, error) => {
  const { errors } = await service.gql(`mutation { ${name} }`, { as: "ada" });
  expect(errors).toEqual([{ ...error, path: [name], locations: expect.any(Array) }]);
});

test("an error of the application reaches the routes of the application whole", async () => {
  expect(await sent(ADA(), "/own?call=deny")).toMatch(
    /^400 {"error":{"code":"DENID","message":"You are no member","detail":"of the club","hint":"join"/,
  );
  expect(await sent(ADA(), "/own?call=refuse")).toMatch(
    /^400 {"error":{"code":"VALIDATION_ERROR","message":"Too late","detail":"It is noon","hint":"come earlier"/,
  );
  expect(await sent(ADA(), "/own?call=forbid")).toMatch(/^403 {"error":{"code":"PT403","message":"Not this way"/);
});

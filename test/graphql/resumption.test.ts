import { createClient } from "graphql-ws";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { Relay } from "../support/relay.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const SETTINGS = { INSTANCE_ID: "resumption" };
const CREATED = "subscription { onArticleCreated { title } }";
const TITLES = "{ articles(first: 100, orderBy: [ID_ASC]) { edges { node { title } } } }";

let service: TestService;
beforeAll(async () => {
  service = await startTestService(SETTINGS);
});
afterAll(() => service.stop());
// The next test must not count subscriptions that this one has left open.
beforeEach(() => expect.poll(() => service.service.open().subscriptions, POLL).toBe(0));

const sql = async (text: string, ...values: unknown[]) => (await service.database.owner.query(text, values)).rows;
const INSERT = "insert into articles (author_id, title, content, status) values (1, $1, 'Some text.', 'PUBLISHED')";
const write = async (...titles: string[]) => {
  for (const title of titles) await sql(INSERT, title);
};
const created = (...titles: string[]) => titles.map((title) => ({ onArticleCreated: { title } }));

test("a subscription begins after the position of an event, over WebSocket and over Server-Sent Events", async () => {
  const client = connect(service);
  const first = await client.subscribe(CREATED);
  await write("Seen before");
  await first.expect(...created("Seen before"));
  first.unsubscribe();
  await write("Missed 1", "Missed 2");
  const extensions = { after: first.position };
  const second = await client.subscribe(CREATED, undefined, extensions);
  await second.expect(...created("Missed 1", "Missed 2"));
  const stream = new EventStreamClient(`${service.url}/graphql`, {
    method: "POST",
    body: { query: CREATED, extensions },
  });
  await write("Written live");
  await second.expect(...created("Missed 1", "Missed 2", "Written live"));
  const events = await stream.take(3, "next");
  expect(events.map(({ data }) => data.data)).toEqual(created("Missed 1", "Missed 2", "Written live"));
  expect(events.at(-1)!.data.extensions).toEqual({ changePosition: events.at(-1)!.id });
  // EventSource sends the same URL again: what it has received last counts.
  const resumed = new EventStreamClient(`${service.url}/graphql`, {
    method: "POST",
    body: { query: CREATED, extensions },
    lastEventId: events[1]!.id,
  });
  expect((await resumed.take(1, "next"))[0]!.data.data).toEqual(created("Written live")[0]);
});

test("graphql-ws with the position of its last event misses nothing when its connection is cut or the service restarts", async () => {
  await using relay = await Relay.open(service.url);
  const client = createClient({
    url: `${relay.url.replace(/^http/, "ws")}/graphql`,
    webSocketImpl: WebSocket,
    shouldRetry: () => true,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: () => new Promise((resolve) => setTimeout(resolve, 30)),
  });
  onTestFinished(() => void client.dispose());
  const titles: string[] = [];
  const payload = { query: CREATED, extensions: {} as Record<string, unknown> };
  client.subscribe<any, any>(payload, {
    next({ data, extensions }) {
      titles.push(data.onArticleCreated.title);
      payload.extensions.after = extensions.changePosition;
    },
    error: (error) => titles.push(JSON.stringify(error)),
    complete: () => {},
  });
  await expect.poll(() => service.service.open().subscriptions, POLL).toBe(1);
  const expected: string[] = [];
  const writeAll = async (...more: string[]) => {
    await write(...more);
    expected.push(...more);
  };
  await writeAll("Before all");
  for (let cut = 1; cut <= 3; cut++) {
    await expect.poll(() => titles, POLL).toEqual(expected);
    relay.cut();
    await writeAll(`After cut ${cut}`);
  }
  await expect.poll(() => titles, POLL).toEqual(expected);
  relay.target = null;
  await service.service.stop();
  await writeAll("While the service was stopped");
  service = await startTestService(SETTINGS, service.database);
  relay.target = service.url;
  await writeAll("After the restart");
  await expect.poll(() => titles, POLL).toEqual(expected);
});

/** A query over HTTP and over WebSocket, compiled and executed by Grafast, of which each can have its position. */
const READS = [
  ["over HTTP", TITLES, (query: string, extensions: object) => post(query, extensions)],
  [
    "that is not compiled",
    `{ search(keyword: "no such text") { id } ${TITLES.slice(1)}`,
    (query: string, extensions: object) => post(query, extensions),
  ],
  [
    "over WebSocket",
    TITLES,
    (query: string, extensions: Record<string, unknown>) => connect(service).run(query, undefined, extensions),
  ],
] as const;

async function post(query: string, extensions: object): Promise<any> {
  const response = await fetch(`${service.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query, extensions }),
  });
  return response.json();
}

test.each(READS)(
  "a subscription from the position of a query %s gets what it has not seen, once",
  async (_, query, run) => {
    await sql("delete from articles where title like 'Row %'");
    // The position is known when changes are read.
    const warm = await connect(service).subscribe(CREATED);
    // It began before the read, and is committed after it.
    const open = new pg.Client({ connectionString: service.database.url });
    await open.connect();
    onTestFinished(() => open.end());
    await open.query("begin");
    await open.query(INSERT, ["Row 1"]);
    await write("Row 2");
    await warm.expect(...created("Row 2"));

    const { data, extensions }: any = await run(query, { changePosition: true });
    const read = data.articles.edges
      .map(({ node }: any) => node.title)
      .filter((title: string) => title.startsWith("Row"));
    expect(read).toEqual(["Row 2"]);
    await write("Row 3");
    await open.query("commit");
    const after = await connect(service).subscribe(CREATED, undefined, { after: extensions!.changePosition });
    await write("Row 4");
    await after.expect(...created("Row 3", "Row 1", "Row 4"));
    expect((await run(query, {})).extensions).toBeUndefined();
  },
);

test("a mutation, and a query of no rows, have no position", async () => {
  const extensions = { changePosition: true };
  expect((await post("mutation { deleteArticle(id: 999999) }", extensions)).extensions).toBeUndefined();
  expect(await post("{ __typename }", extensions)).toEqual({ data: { __typename: "Query" } });
});

test.each([
  ["is no longer kept", "other-1c4e8-2", "CHANGES_MISSED", /changes have been missed/],
  ["is not a position", "yesterday", "VALIDATION_ERROR", /at the position of an event or of a query/],
  ["is not text", 7, "VALIDATION_ERROR", /extensions\.after/],
])("a subscription after a position that %s is an error with a code", async (_, after, code, message) => {
  const errors = [{ message: expect.stringMatching(message), extensions: { code } }];
  const subscription = connect(service).subscribeSoon(CREATED, undefined, { after });
  await expect.poll(() => subscription.error, POLL).toMatchObject(errors);
  if (typeof after !== "string") return expect(await post(CREATED, { after })).toMatchObject({ errors });
  const stream = new EventStreamClient(`${service.url}/graphql`, {
    method: "POST",
    body: { query: CREATED, extensions: { after } },
  });
  expect((await stream.take(1, "next"))[0]!.data).toMatchObject({ errors });
});

test("extensions.changePosition that is neither a boolean nor a position is refused", async () => {
  const { errors } = await post(TITLES, { changePosition: "yes" });
  expect(errors).toMatchObject([
    { message: expect.stringMatching(/changePosition/), extensions: { code: "VALIDATION_ERROR" } },
  ]);
});

test.each([
  ["a subscription", "/graphql", { method: "POST", body: { query: CREATED } }],
  ["the stream of a table", "/rest/v1/articles?select=id", {}],
])("the first frame of %s has its position, also right after a start", async (_what, path, sent) => {
  const fresh = await startTestService({ ...SETTINGS, sseHeartbeat: 3600 });
  onTestFinished(() => fresh.stop());
  const headers = { apikey: fresh.service.tokens.issueKey("anon") };
  const stream = new EventStreamClient(fresh.url + path, { headers, ...sent });
  await expect.poll(() => stream.text, POLL).toMatch(/^retry: \d+\n\n.+\n\n/s);
  expect(stream.text).toMatch(/^retry: \d+\n\n(:\n)?id: \S+\n/);
});

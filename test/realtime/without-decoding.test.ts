import { globSync, readFileSync } from "node:fs";
import { pino } from "pino";
import { beforeAll, expect, test } from "vitest";
import { ChannelClient } from "../support/channel-socket.ts";
import { createTestDatabase } from "../support/database.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { connect } from "../support/graphql-client.ts";
import { sendRest } from "../support/rest-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
let login: string;
const logged: string[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  login = `${database.name}_changes`;
  // The first start makes the logins, and MIGRATE=check gives them no rights.
  await (await startTestService({}, { ...database, drop: async () => {} })).stop();
  await database.owner.query(`alter role ${login} noreplication`);
  const log = pino({ level: "info" }, { write: (line: string) => void logged.push(JSON.parse(line).msg) });
  service = await startTestService({ MIGRATE: "check" }, database, log);
  return () => service.stop();
});

const SUBSCRIPTION = "subscription { onArticleCreated { title } }";
const headers = (): Record<string, string> => ({
  apikey: service.service.tokens.issueKey("anon"),
  authorization: `Bearer ${service.token("ada")}`,
});

/** A client that joins a channel, and all that it receives. */
async function join(config: object) {
  const client = new ChannelClient(service, "127.0.0.1");
  const received: string[] = [];
  client.socket.on("message", (data) => received.push(String(data)));
  await client.open();
  await client.ask("realtime:room", "phx_join", { config, access_token: service.token("ada") });
  return { client, received: () => received.join() };
}

const streamed = (path: string, sent: object = {}) => {
  const client = new EventStreamClient(`${service.url}${path}`, { headers: headers(), ...sent });
  return () => client.text;
};

const channelOf = (binding: object) => async () => (await join({ postgres_changes: [binding] })).received;

/** Each subscribes to new articles, and returns what it has received as text. */
const SUBSCRIBERS: Readonly<Record<string, () => Promise<() => string>>> = {
  "a stream of a table": async () => streamed("/rest/v1/articles?select=title"),
  "a subscription of GraphQL over a WebSocket": async () => {
    const subscription = connect(service, { as: "ada" }).subscribeSoon(SUBSCRIPTION);
    return () => JSON.stringify([subscription.events, subscription.error]);
  },
  "a subscription of GraphQL over Server-Sent Events": async () =>
    streamed("/graphql", { method: "POST", body: { query: SUBSCRIPTION } }),
  "a channel with a table": channelOf({ event: "*", schema: "public", table: "articles" }),
  "a channel with every table": channelOf({ event: "*", schema: "*" }),
};

/** Where each interface learns that changes do not arrive. A new one needs a row above. */
test("every interface with subscriptions is known", () => {
  const sources = globSync("{gate,graphql,parts,plugins,realtime,rest-gateway,service}/**/*.ts");
  expect(sources.filter((path) => /\.lostChanges\(/.test(readFileSync(path, "utf8"))).toSorted()).toEqual([
    "graphql/execute/change-events.ts",
    "realtime/bindings.ts",
    "rest-gateway/table/stream/stream.ts",
  ]);
});

test("without the right to replicate, the log says it once, and /health, with the SQL", async () => {
  const reason = `changes cannot be read, because the login ${login} may not replicate: a superuser can run: alter role "${login}" replication`;
  expect(logged.filter((line) => line.includes("replicat"))).toEqual([
    `${reason}. Only subscriptions to changes need this`,
  ]);
  expect((await service.health()).details.changes).toEqual({ state: "unavailable", reason });
});

test.each(Object.entries(SUBSCRIBERS))(
  "%s is refused, with where the SQL is and without names",
  async (_, subscribe) => {
    const received = await subscribe();
    await expect
      .poll(received, POLL)
      .toContain("because its database does not allow logical decoding or has no publication");
    expect(received()).toContain("(its log and /health name the SQL that helps)");
    expect(received()).not.toContain(login);
  },
);

test("reads, writes, broadcasts and presence work", async () => {
  const body = { title: "Written", content: "Some text." };
  expect((await sendRest(service, "articles", { as: "ada", body })).status).toBe(201);
  const { data } = await service.gql("{ articles(first: 1) { edges { node { title } } } }", { as: "ada" });
  expect(data.articles.edges).toHaveLength(1);
  const { client, received } = await join({ broadcast: { self: true, ack: true }, presence: { key: "ada" } });
  await client.ask("realtime:room", "broadcast", { type: "broadcast", event: "cursor", payload: { x: 1 } });
  await client.ask("realtime:room", "presence", { type: "presence", event: "track", payload: { name: "Ada" } });
  await expect.poll(received, POLL).toMatch(/"event":"cursor","payload":\{"x":1\}/);
  await expect.poll(received, POLL).toContain('"presence_diff"');
});

test("after the SQL that the log names, every interface has subscriptions without a restart", async () => {
  const { owner } = service.database;
  await owner.query(`alter role ${login} replication`);
  // A client that subscribes makes the service look again.
  const stream = async () => {
    const received = await SUBSCRIBERS["a stream of a table"]!();
    await expect.poll(received, POLL).not.toBe("");
    return received();
  };
  await expect.poll(stream, { ...POLL, interval: 500 }).toContain("event: snapshot");
  const all = await Promise.all(Object.values(SUBSCRIBERS).map((subscribe) => subscribe()));
  const write = () =>
    owner.query("insert into articles (author_id, title, content, status) values (1, 'Arrives', '-', 'PUBLISHED')");
  const arrived = async () => {
    await write();
    return all.map((received) => received().includes("Arrives"));
  };
  await expect.poll(arrived, { ...POLL, interval: 200 }).toEqual(all.map(() => true));
});

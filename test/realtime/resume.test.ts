import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { observe, observing, summary, useRealtime } from "../support/realtime.ts";
import { Relay } from "../support/relay.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";

const { client, receivedInserts, service, sql } = useRealtime({ changesMaxBytes: 1_000_000 });

const NOTES = [{ event: "INSERT", schema: "public", table: "notes" }];
const SOON = { reconnectAfterMs: () => 30 };
let last = 0;

/** Inserts notes with the next numbers. */
async function insert(count: number): Promise<void> {
  await sql("insert into notes (id) select n from generate_series($1::int, $2::int) as n", last + 1, last + count);
  last += count;
}

const ids = (changes: readonly any[]) => changes.map((change) => change.new.id as number);
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("an unmodified client misses nothing when its connection is cut while rows are inserted", async () => {
  await using relay = await Relay.open(service().url);
  const notes = await observing(client({ url: relay.url, realtime: SOON }), "cut", NOTES);
  const first = last + 1;
  for (let cut = 0; cut < 5; cut++) {
    await insert(20);
    if (cut % 2 === 0) await expect.poll(() => ids(notes.changes)).toContain(last);
    relay.cut();
    await insert(20);
    const joined = () => notes.states.filter((state) => state === "SUBSCRIBED").length;
    await expect.poll(joined).toBe(cut + 2);
  }
  await expect.poll(() => ids(notes.changes)).toContain(last);
  const received = [...new Set(ids(notes.changes))];
  // What had arrived without an answer to the ping is sent again; the order of what is new stays.
  expect(received).toEqual(numbers(first, last));
  expect(notes.system.at(-1)).toMatchObject({ status: "ok", resumed: true });
});

test("a page that is loaded again does not get what the page before has missed", async () => {
  await using relay = await Relay.open(service().url);
  const other = await observing(client(), "other", NOTES);
  const before = client({ url: relay.url });
  await observing(before, "page", NOTES);
  relay.cut();
  void before.realtime.disconnect();
  await insert(1);
  await expect.poll(() => ids(other.changes)).toEqual([last]);
  const after = await observing(client({ url: relay.url }), "page", NOTES);
  await insert(1);
  await expect.poll(() => ids(after.changes)).toEqual([last]);
});

test("a client with a client_id continues exactly where it was, also on another page", async () => {
  const params = { client_id: "the reader of this test" };
  await using relay = await Relay.open(service().url);
  const before = client({ url: relay.url, realtime: { params } });
  const notes = await observing(before, "exact", NOTES);
  await insert(1);
  await expect.poll(() => ids(notes.changes)).toEqual([last]);
  relay.cut();
  void before.realtime.disconnect();
  await insert(2);
  const after = await observing(client({ realtime: { params } }), "exact", NOTES);
  await insert(1);
  await expect.poll(() => ids(after.changes).slice(-3)).toEqual([last - 2, last - 1, last]);
});

test("an unmodified client misses nothing when its service stops and it connects to another one", async () => {
  const next = service();
  const previous = await startTestService({}, next.database);
  await using relay = await Relay.open(previous.url);
  const notes = await observing(client({ url: relay.url, realtime: SOON }), "upgrade", NOTES);
  const first = last + 1;
  await insert(3);
  await expect.poll(() => ids(notes.changes)).toContain(last);
  relay.target = null;
  await previous.service.stop();
  await insert(3);
  relay.target = next.url;
  await expect.poll(() => ids(notes.changes)).toContain(last);
  await insert(1);
  await expect.poll(() => ids(notes.changes)).toContain(last);
  expect([...new Set(ids(notes.changes))]).toEqual(numbers(first, last));
  expect(notes.system.at(-1)).toMatchObject({ status: "ok", resumed: true });
});

test("a client continues at a position that a system message has given it", async () => {
  const options = { postgres_changes_options: { positions: true } };
  const one = await observing(client(), "positions", NOTES, options);
  await insert(1);
  await expect.poll(() => one.system.some(({ message }) => message === "position")).toBe(true);
  const { position } = one.system.findLast((message) => message.message === "position");
  await one.channel.unsubscribe();
  await insert(2);
  const since = { postgres_changes_options: { since: position } };
  const other = await observing(client(), "since", NOTES, since);
  await insert(1);
  await expect.poll(() => ids(other.changes)).toEqual([last - 2, last - 1, last]);
});

test("a read and a subscription from its Change-Position miss nothing and get nothing twice", async () => {
  await sql("delete from notes");
  const headers = { apikey: service().service.tokens.issueKey("anon") };
  // The position is known when the feed is read.
  const warm = await observing(client(), "warm", NOTES);
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) await insert(3);
  })();
  try {
    for (let n = 0; n < 5; n++) {
      // The newest rows: the table can get more than a response may have.
      const response = await fetch(`${service().url}/rest/v1/notes?select=id&order=id.desc&limit=100`, { headers });
      const rows = ((await response.json()) as { id: number }[]).map(({ id }) => id);
      const since = response.headers.get("Change-Position")!;
      const after = await observing(client(), `after ${n}`, NOTES, { postgres_changes_options: { since } });
      await expect.poll(() => after.changes.length).toBeGreaterThan(20);
      const all = [...rows, ...ids(after.changes)].sort((a, b) => a - b);
      expect(all).toEqual(numbers(all[0]!, all.at(-1)!));
      await after.channel.unsubscribe();
    }
  } finally {
    isWriting = false;
    await writing;
  }
  expect(warm.changes.length).toBeGreaterThan(0);
});

describe("a response has the position of what it has read", () => {
  beforeAll(() =>
    sql(`create function newest_note() returns bigint language sql stable return (select max(id) from notes);
      create function note_ids() returns setof bigint language sql stable begin atomic select id from notes; end;
      create function any_note() returns bigint language sql volatile return (select max(id) from notes);
      grant execute on function newest_note, note_ids, any_note to anon`),
  );

  test.each([
    ["/rest/v1/notes?select=id&limit=1", true],
    ["/rest/v1/rpc/newest_note", true],
    ["/rest/v1/rpc/note_ids", true],
    ["/rest/v1/rpc/any_note", false],
    ["/users", true],
    ["/users/1", true],
    ["/users/1/articles", true],
  ])("GET %s: %s", async (path, isExpected) => {
    await observing(client(), "position", NOTES);
    const headers = { apikey: service().service.tokens.issueKey("anon") };
    await expect.poll(async () => (await fetch(`${service().url}${path}`, { headers })).status).toBe(200);
    const { headers: received } = await fetch(`${service().url}${path}`, { headers });
    expect(received.has("Change-Position")).toBe(isExpected);
  });
});

test("a position that is too old is refused with Gap, and a lost connection that was too long is reported", async () => {
  await using relay = await Relay.open(service().url);
  const notes = await observing(client({ url: relay.url, realtime: SOON }), "too old", NOTES);
  const { position: since } = notes.system[0];
  relay.target = null;
  relay.cut();
  const before = await receivedInserts();
  await sql("insert into notes (id, body) select -n, repeat('x', 10000) from generate_series(1, 200) as n");
  await expect.poll(receivedInserts).toBeGreaterThanOrEqual(before + 200);
  relay.target = service().url;
  await expect
    .poll(() => notes.system.map(({ message, gap }) => [gap, message]))
    .toContainEqual([
      true,
      "Gap: the changes since this position are no longer kept: reload the data and subscribe without it",
    ]);
  await insert(1);
  await expect.poll(() => ids(notes.changes).at(-1)).toBe(last);
  const refused = observe(client(), "refused", NOTES, { postgres_changes_options: { since } });
  await expect.poll(() => refused.states[0]).toMatch(/^CHANNEL_ERROR: Gap: /);
});

/** A token of a user that expires in so many seconds. */
function shortToken(user: "ada" | "bob", seconds: number): string {
  const { exp, iat, ...claims } = jwt.decode(service().token(user)) as jwt.JwtPayload;
  const now = Math.floor(Date.now() / 1000);
  return jwt.sign({ ...claims, iat: now - 10, exp: now + seconds }, JWT_SECRET);
}

const TODOS = [{ event: "INSERT", schema: "public", table: "todos" }];

test("when a token expires the client joins again with a new one, and misses nothing", async () => {
  let token = shortToken("ada", 4);
  const made = client({ accessToken: async () => token });
  const todos = await observing(made, "expiry", TODOS);
  await expect
    .poll(() => todos.system.map(({ message }) => message))
    .toContain("InvalidJWTToken: the access token has expired: refresh it, or sign in again");
  token = service().token("ada");
  await sql("insert into todos (id, owner, title) values (1, 1, 'milk'), (2, 2, 'bread')");
  await made.realtime.setAuth();
  await expect.poll(() => summary(todos)).toEqual(["INSERT 1"]);
  expect(todos.system.at(-1)).toMatchObject({ status: "ok", resumed: true });
  await sql("delete from todos");
});

test("a token that replaces another takes effect without a pause, for the changes after it", async () => {
  const made = client();
  await made.realtime.setAuth(service().token("ada"));
  const todos = observe(made, "two users", TODOS);
  await expect.poll(() => todos.states).toEqual(["SUBSCRIBED"]);
  await sql("insert into todos (id, owner) values (11, 1), (12, 2)");
  await expect.poll(() => summary(todos)).toEqual(["INSERT 11"]);
  await made.realtime.setAuth(service().token("bob"));
  let id = 100;
  // A row of each user, until those of Bob arrive.
  await expect
    .poll(async () => {
      id += 2;
      await sql("insert into todos (id, owner) values ($1, 1), ($1 + 1, 2)", id);
      return summary(todos).length;
    })
    .toBeGreaterThan(3);
  const arrived = todos.changes.slice(1).map(({ new: row }) => row.owner);
  // Ada's, and from some row on Bob's.
  expect(arrived).toEqual([...arrived].sort());
  expect(todos.states).toEqual(["SUBSCRIBED"]);
  await sql("delete from todos");
});

test("a changed role or a disabled account ends delivery", async () => {
  const made = client({ as: "bob" });
  const todos = await observing(made, "revoked", TODOS);
  await sql("update auth_private.accounts set disabled_at = now() where user_id = 2");
  await expect.poll(() => todos.system.at(-1)?.message).toMatch(/^InvalidJWTToken: /);
  await sql("insert into todos (id, owner) values (21, 2)");
  await expect.poll(() => todos.states.at(-1)).toMatch(/^CHANNEL_ERROR: InvalidJWTToken: /);
  expect(summary(todos)).not.toContain("INSERT 21");
  await sql("update auth_private.accounts set disabled_at = null where user_id = 2");
  await sql("delete from todos");
});

import { setTimeout } from "node:timers/promises";
import pino from "pino";
import { afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createTestDatabase } from "../../support/database.ts";
import { openRaw, type RawSocket } from "../../support/raw-socket.ts";
import { startTestService, type TestService } from "../../support/service.ts";
import { POLL } from "../../support/until.ts";

const FUNCTIONS = `
  create function slow(tag text default '') returns text language sql stable as $$ select pg_sleep(30)::text || tag $$;
  create function slow_write() returns void language plpgsql volatile as
    $$ begin update articles set title = 'By a lost client' where id = 1; perform pg_sleep(30); end $$;
  create function large() returns text language sql stable as $$ select repeat('x', 16000000) $$;
  grant execute on function slow(text), slow_write(), large() to anon, authenticated;`;

let service: TestService;
const logged: string[] = [];
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(FUNCTIONS);
  const log = pino({ level: "warn" }, { write: (line) => void logged.push(line) });
  const settings = { DB_POOL: "1", GRAPHQL_DOCUMENTS: "none", dbMaxResultBytes: 0 };
  service = await startTestService(settings, database, log);
  return () => service.stop();
});

/** The number of running statements of callers; the pool has one connection. */
async function running(): Promise<number> {
  const text = "select count(*)::int as n from pg_stat_activity where usename = $1 and state = 'active'";
  const { rows } = await service.database.owner.query(text, [`${service.database.name}_data`]);
  return rows[0].n;
}
const untilRunning = (count: number) => expect.poll(running, POLL).toBe(count);
const waits = () => service.service.databaseWaits();

/** The request line and headers of a request. */
function head(method: string, path: string, ...headers: readonly string[]): string {
  const key = service.service.tokens.issueKey("anon");
  const who = [`Host: ${new URL(service.url).host}`, `apikey: ${key}`, `Authorization: Bearer ${service.token("ada")}`];
  return `${[`${method} /rest/v1/${path} HTTP/1.1`, ...who, ...headers].join("\r\n")}\r\n\r\n`;
}

async function send(...pieces: readonly string[]): Promise<RawSocket> {
  const raw = await openRaw(service.url);
  for (const piece of pieces) raw.write(piece);
  return raw;
}

/** Resolves when the service has read what clients have sent before, and knows which of them have left. */
async function untilRead(): Promise<void> {
  for (let i = 0; i < 3; i++) await (await send("GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).head();
}

const NOTES = "Notes on the Analytical Engine";
const TITLE = `[{"title":"${NOTES}"}]`;
const title = () => head("GET", "articles?id=eq.1&select=title");
const JSON_BODY = "Content-Type: application/json";

/** Sends a request, and returns how often it waited for the database. */
async function waitsOfRequest(): Promise<number> {
  const before = waits();
  const raw = await send(title());
  await expect.poll(() => raw.text, POLL).toContain(TITLE);
  return waits() - before;
}

// After each test the only connection serves the next request at once, and nothing was logged.
afterEach(async () => {
  await untilRunning(0);
  // The account of the token may have to be read.
  expect(await waitsOfRequest()).toBeLessThanOrEqual(2);
  expect(logged).toEqual([]);
});

describe("a client that disconnects", () => {
  test("cancels its query", async () => {
    const raw = await send(head("GET", "rpc/slow"));
    await untilRunning(1);
    raw.socket.destroy();
    await untilRunning(0);
  });

  test("rolls back its write", async () => {
    const raw = await send(head("POST", "rpc/slow_write", "Content-Length: 0"));
    await untilRunning(1);
    raw.socket.resetAndDestroy();
    await untilRunning(0);
    expect((await service.database.owner.query("select title from articles where id = 1")).rows).toEqual([
      { title: NOTES },
    ]);
  });

  test("while it waits for a database connection never reaches the database", async () => {
    const first = await send(head("GET", "rpc/slow"));
    await untilRunning(1);
    const before = waits();
    const others = [
      await send(head("GET", "rpc/slow?tag=a")),
      await send(head("POST", "rpc/slow", JSON_BODY, "Content-Length: 2"), "{}"),
      await send(head("PATCH", "articles?id=eq.1", JSON_BODY, "Content-Length: 28"), '{"title":"By a lost client"}'),
    ];
    // The service reads the requests before their clients disconnect.
    await untilRead();
    for (const raw of others) raw.socket.destroy();
    await untilRead();
    first.socket.destroy();
    await untilRunning(0);
    expect(waits()).toBe(before);
  });

  test("cancels its later requests on the same connection too", async () => {
    const before = waits();
    const raw = await send(head("GET", "rpc/slow"), head("GET", "rpc/slow?tag=b"), title());
    await untilRunning(1);
    raw.socket.destroy();
    await untilRunning(0);
    expect(waits()).toBe(before + 1);
  });

  test("in the middle of a body sends nothing to the database", async () => {
    const before = waits();
    const raw = await send(head("POST", "articles", JSON_BODY, "Content-Length: 1000"), '{"title":');
    await untilRead();
    raw.socket.resetAndDestroy();
    const chunked = await send(
      head("PATCH", "articles?id=eq.1", JSON_BODY, "Transfer-Encoding: chunked"),
      "2\r\n{}\r\n",
    );
    await untilRead();
    chunked.socket.destroy();
    await untilRead();
    expect(waits()).toBe(before);
  });

  test("in the middle of a large response, or stops reading it, holds no database connection", async () => {
    const raw = await send();
    raw.socket.pause();
    raw.write(head("GET", "rpc/large"));
    await untilRunning(1);
    await untilRunning(0);
    const other = await send(title());
    await expect.poll(() => other.text, POLL).toContain(TITLE);
    raw.socket.destroy();
  });

  test("while the catalog is reloaded for an unknown table is not served from the new catalog", async () => {
    const { owner } = service.database;
    // The catalog is reloaded for a missing name at most every two seconds.
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2100 });
    onTestFinished(() => void vi.useRealTimers());
    await owner.query("begin; lock table pg_description in access exclusive mode");
    const before = waits();
    const raw = await send(head("GET", "late"));
    const waiting = `select from pg_locks where not granted and relation = 'pg_description'::regclass
      and database = (select oid from pg_database where datname = current_database())`;
    await expect.poll(async () => (await owner.query(waiting)).rowCount, POLL).toBeGreaterThan(0);
    raw.socket.destroy();
    await owner.query("create table late (id int); grant select on late to authenticated; commit");
    await expect
      .poll(async () => {
        const raw = await send(head("GET", "late?limit=0"));
        return (await raw.head()).status;
      }, POLL)
      .toBe(200);
    expect(waits()).toBe(before + 1);
  });
});

describe("a lost database connection", () => {
  /** Resolves when all have ended. The one that listens is the last: when it is back, the service reads the catalog again. */
  const terminate = () =>
    service.database.owner.query(
      `select pg_terminate_backend(pid, 10000) from (
         select pid from pg_stat_activity where usename = $1 order by application_name = 'content-service changes'
       ) as connections`,
      [`${service.database.name}_data`],
    );
  // Until the service hears of changed accounts again, it keeps none, and each request reads its own.
  afterEach(() => expect.poll(waitsOfRequest, POLL).toBe(1));

  /** The catalog may be read when its connection is ended. */
  const NOT_READ = "the changed tables cannot be read: the previous ones stay in use";

  /** Removes and returns the distinct log messages, after all connections have reported their loss. */
  const logMessages = async () => {
    await expect.poll(() => logged.length, POLL).toBeGreaterThan(0);
    await setTimeout(300);
    const messages = logged.splice(0).map((line) => JSON.parse(line).msg);
    return new Set(messages.filter((message) => message !== NOT_READ));
  };

  test("in the middle of a query is 503 with Retry-After", async () => {
    const raw = await send(head("GET", "rpc/slow"));
    await untilRunning(1);
    await terminate();
    expect(await raw.head()).toEqual({ status: 503, headers: expect.stringMatching(/^Retry-After: 5\r$/m) });
    await expect
      .poll(() => raw.text, POLL)
      .toMatch(/"code":"57P01","message":"the database is not available; try again"/);
    expect(await logMessages()).toEqual(new Set(["a connection to the database was lost"]));
  });

  test("between two requests does not affect clients", async () => {
    await terminate();
    expect(await logMessages()).toEqual(new Set(["a connection to the database was lost"]));
  });
});

test("a slow request body holds no database connection", async () => {
  const slow = await send(head("PATCH", "articles?id=eq.1", JSON_BODY, "Content-Length: 12"), '{"ti');
  const raw = await send(title());
  await expect.poll(() => raw.text, POLL).toContain(TITLE);
  slow.write('tle":1');
  slow.write("2}");
  expect((await slow.head()).status).toBe(400);
});

test("requests on one connection get their responses in order, however they were sent", async () => {
  const raw = await send(
    head("GET", "articles?id=eq.2&select=id"),
    head("HEAD", "articles?id=eq.3"),
    head("GET", "nowhere"),
    // These bodies are ignored.
    `${head("GET", "articles?id=eq.4&select=id", "Content-Length: 12")}{"id": "bad"`,
    `${head("DELETE", "articles?id=eq.0", JSON_BODY, "Content-Length: 2")}{}`,
    `${head("GET", "articles?id=eq.1&select=id", "Transfer-Encoding: chunked")}3\r\nabc\r\n0\r\n\r\n`,
  );
  await expect.poll(() => raw.text, POLL).toContain('[{"id":1}]');
  expect(raw.text.match(/HTTP\/1.1 \d+|\[\{"id":\d\}\]|"PGRST\d+"/g)).toEqual([
    "HTTP/1.1 200",
    '[{"id":2}]',
    "HTTP/1.1 200",
    "HTTP/1.1 404",
    '"PGRST205"',
    "HTTP/1.1 200",
    '[{"id":4}]',
    "HTTP/1.1 204",
    "HTTP/1.1 200",
    '[{"id":1}]',
  ]);
});

test("a client that sends Expect: 100-continue gets 100 Continue", async () => {
  const body = '{"title":12}';
  const raw = await send(
    head("PATCH", "articles?id=eq.1", JSON_BODY, `Content-Length: ${body.length}`, "Expect: 100-continue"),
  );
  expect((await raw.head()).status).toBe(100);
  raw.write(body);
  await expect.poll(() => raw.text, POLL).toContain("HTTP/1.1 400 Bad Request");
  const get = await send(head("GET", "articles?id=eq.2&select=id", "Expect: 100-continue"));
  await expect.poll(() => get.text, POLL).toContain('[{"id":2}]');
});

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { replaceIn } from "../../bench/upgrade/network.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { takeOver } from "../../service/takeover.ts";
import { nodeStart } from "../support/command.ts";
import { readConfig } from "../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { openRaw, type RawSocket } from "../support/raw-socket.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";

let database: TestDatabase;
let folder: string;
beforeAll(async () => {
  database = await createTestDatabase();
  folder = mkdtempSync(join(tmpdir(), "content-service-upgrade-"));
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true, force: true });
});

test("a version that takes over from the running one loses no request and no socket, with WORKERS too", {
  timeout: 300_000,
}, async ({ signal }) => {
  // The instance keeps its name, and so its replication slot.
  const own = { DB_POOL: "3", INSTANCE_ID: "web1", GRAPHQL_DOCUMENTS: "none" };
  // However slow the machine is.
  const version = { ...own, DB_STATEMENT_TIMEOUT: "0" };
  const outcome = await replaceIn(
    {
      databaseUrl: database.url,
      versions: [version, { ...version, WORKERS: "2" }, version],
      migrates: true,
      path: "/users/1",
      rate: 50,
      concurrency: 4,
      sockets: 20,
      pause: 200,
    },
    signal,
  );
  expect(outcome.answers).toEqual({ 200: outcome.sent });
  expect(outcome.closed).toEqual({ 1012: 40 });
  expect(outcome).toMatchObject({ open: 20, exitCodes: [0, 0, 0] });
});

test.each([
  [{ PORT: "3000" }, "TAKEOVER requires DATABASE_URL: only one process can run the embedded database"],
  [
    { DATABASE_URL: "postgres://localhost/none", JWT_SECRET, PORT: "0" },
    "TAKEOVER requires a PORT, which both services share",
  ],
])("TAKEOVER with %o is refused", (settings, message) => {
  expect(() => readConfig({ TAKEOVER: "/run/content-service/takeover", ...settings })).toThrow(message);
});

describe("a service that stops", () => {
  const start = async (settings: Record<string, string>) => {
    const started = await startTestService(settings, database);
    const idle = await openRaw(started.url);
    const ask = (raw: RawSocket, path = "/users/1") => raw.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    ask(idle);
    await expect.poll(() => idle.text).toContain("Ada Lovelace");
    expect(idle.text).not.toContain("Connection: close");
    const headsOf = (raw: RawSocket) => raw.text.match(/HTTP\/1.1 .*|^Connection: .*/gm)!.map((line) => line.trim());
    return { ...started, idle, ask, headsOf };
  };

  test("and hands over answers a request on an idle connection, and asks the client to connect again", async () => {
    const { service, idle, ask, headsOf } = await start({});
    const handedOver = service.handOver();
    ask(idle);
    await handedOver;
    await expect.poll(() => idle.ended).toBe(true);
    expect(headsOf(idle)).toEqual([
      "HTTP/1.1 200 OK",
      "Connection: keep-alive",
      "HTTP/1.1 200 OK",
      "Connection: close",
    ]);
    await service.stop();
  });

  test("serves for DRAIN_DELAY, but is not ready", async () => {
    const { service, url, idle, ask, headsOf } = await start({ DRAIN_DELAY: "600000" });
    void service.stop();
    const probe = await openRaw(url);
    ask(probe, "/ready");
    ask(idle);
    await expect.poll(() => idle.ended && probe.ended).toBe(true);
    expect(headsOf(probe)).toEqual(["HTTP/1.1 503 Service Unavailable", "Connection: close"]);
    expect(headsOf(idle).slice(2)).toEqual(["HTTP/1.1 200 OK", "Connection: close"]);
  });
});

test("a service that may not take over leaves the running one alone, and a socket that was left behind is taken at once", async () => {
  const path = join(folder, "held");
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const mayNot = async () => {
    throw new Error("no connection is left");
  };
  const leftBehind = `require("net").createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, "SIGKILL"))`;
  expect(spawnSync(process.execPath, ["-e", leftBehind]).signal).toBe("SIGKILL");
  expect(existsSync(path)).toBe(true);
  let replaced = 0;
  const onReplaced = () => {
    replaced++;
  };
  await takeOver({ path, log, mayReplace: mayNot, onReplaced });
  const migrates = readFileSync("/proc/sys/net/ipv4/tcp_migrate_req", "utf8") === "1\n";
  expect(lines.some((line) => line.startsWith("net.ipv4.tcp_migrate_req is 0"))).toBe(!migrates);
  await expect(takeOver({ path, log, mayReplace: mayNot, onReplaced })).rejects.toThrow(
    "TAKEOVER: no connection is left",
  );
  expect(replaced).toBe(0);
  await takeOver({ path, log, mayReplace: async () => {}, onReplaced });
  expect(replaced).toBe(1);
});

test("TAKEOVER that names another file is refused, and the file and the database stay as they were", async () => {
  const file = join(folder, "notes.txt");
  writeFileSync(file, "notes");
  const empty = await createTestDatabase(undefined, "template1");
  onTestFinished(() => empty.drop());
  const settings = { DATABASE_URL: empty.url, JWT_SECRET, PORT: String(await findFreePort()), TAKEOVER: file };
  const command = nodeStart({ dataDir: folder, settings });
  expect(await command.exited()).toBe(1);
  expect(command.stdout).toContain(`the service cannot start: TAKEOVER: ${file} is not a socket`);
  expect(readFileSync(file, "utf8")).toBe("notes");
  const schemas = "select from pg_namespace where nspname = 'content_service'";
  expect((await empty.owner.query(schemas)).rowCount).toBe(0);
});

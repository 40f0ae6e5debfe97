import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { connectionsOf, refuseWithoutConnections, whyNotStarted } from "../../db/cluster/connections.ts";
import { keepSecret } from "../../db/cluster/data-directory.ts";
import { createTestDatabase } from "../support/database.ts";
import { readTestConfig, startTestService } from "../support/service.ts";

const SERVER = { DATABASE_URL: "postgres://pooler/shop", JWT_SECRET: "a secret of the tests, long enough for HS256" };

test.each([
  ["a process opens at most 40 connections with the default settings", {}, 40],
  ["each of several processes opens as many", { WORKERS: "3" }, 120],
  ["each task adds one for each login of callers, and one of the queue", { TASK_CONCURRENCY: "4" }, 48],
  [
    "past a pooler, only those of the process itself and of the queue go to the server",
    { DATABASE_DIRECT_URL: "postgres://server/shop" },
    12,
  ],
])("%s", (_what, settings, connections) => {
  expect(connectionsOf(readTestConfig({ ...SERVER, ...settings }))).toBe(connections);
});

test.each([
  [
    "the service",
    "900",
    /^the service may open 922 connections, and the server accepts \d+ from all its clients: raise /,
  ],
  ["an upgrade", "250", /^the service may open 272 connections, twice as many while an upgrade runs beside it, and /],
])("a start warns that the server has too few connections for %s", async (_what, DB_POOL, warning) => {
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => lines.push(JSON.parse(line).msg) });
  const service = await startTestService({ DB_POOL }, undefined, log);
  onTestFinished(service.stop);
  expect(lines).toEqual([expect.stringMatching(warning)]);
});

test("a start warns that the connection limit of the database is too low", async () => {
  const database = await createTestDatabase();
  await database.owner.query(`alter database ${database.name} connection limit 30`);
  const lines: string[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => lines.push(JSON.parse(line).msg) });
  const service = await startTestService({}, database, log);
  onTestFinished(service.stop);
  expect(lines).toEqual([
    expect.stringMatching(
      /^the service may open \d+ connections, and the database accepts 30 from all its clients: raise its connection limit/,
    ),
  ]);
});

test("a start that takes over needs two connections for each process beside the running service, and no more", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const login = `few_${database.name}`;
  await database.owner.query(`create role ${login} login password 'few' connection limit 4`);
  onTestFinished(async () => void (await database.owner.query(`drop role ${login}`)));
  const data = Object.assign(new URL(database.url), { username: login, password: "few" }).href;
  const settings = (WORKERS: string) => readTestConfig({ ...SERVER, WORKERS });
  await refuseWithoutConnections({ data }, settings("2"));
  await expect(refuseWithoutConnections({ data }, settings("3"))).rejects.toThrow(
    /^the server accepts 4 more connections beside the running service, and the first requests need 6, 2 for each process \(too many connections for role .*\): raise max_connections .*, or stop the running service first$/,
  );
});

const OWN = readTestConfig({ DATA_DIR: "/proc/data" });

test("a start that fails because the data directory cannot be made names the setting", async () => {
  const refused = await keepSecret("/proc/data/secret").catch((error) => error);
  expect(whyNotStarted(refused, OWN)).toBe(
    "ENOENT: no such file or directory, mkdir '/proc/data': DATA_DIR must be a folder that the user of the service may write",
  );
});

test("a start that fails because the server has no connection left says what to do, and another failure only its reason", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const login = `none_${database.name}`;
  await database.owner.query(`create role ${login} login password 'none' connection limit 0`);
  onTestFinished(async () => void (await database.owner.query(`drop role ${login}`)));
  const url = Object.assign(new URL(database.url), { username: login, password: "none" }).href;
  const refused = await withClient(url, async () => {}).catch((error) => error);
  expect(whyNotStarted(refused, OWN)).toMatch(
    /too many connections for role .*: all connections of the server are in use; raise max_connections of the server, or set /,
  );
  expect(whyNotStarted(new Error("no"), OWN)).toBe("no");
});

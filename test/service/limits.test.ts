import { availableParallelism } from "node:os";
import { getHeapStatistics } from "node:v8";
import { expect, test } from "vitest";
import type { Environment } from "../../config/config.ts";
import { type Limits, withLimits } from "../../service/limits.ts";
import { readConfig } from "../support/config.ts";

const DATABASE_URL = "postgres://u:p@db.example.com/d";
const OWN = { DATABASE_URL, JWT_SECRET: "0123456789abcdef0123456789abcdef" };
const read = (environment: Environment, limits?: Limits) => withLimits(readConfig(environment), limits);

/** The limits that follow neither from a setting nor from the machine. */
const LIMITS = `
  apiKeysMax=50 apiMaxRecords=10000 changesMaxBytes=67108864 changesOpenTimeout=8000 changesPolicyTimeout=2000
  dbAnonStatementTimeout=5000 dbMaxResultBytes=16777216 dbPoolQueue=10 dbPoolShare=80 dbPoolTimeout=10000 dbSharedReads=4 drainSpread=5000
  emailReservation=2592000 graphqlMaxPageSize=1000 graphqlMaxRows=100000 graphqlMaxSearches=20 graphqlMaxTables=2000 graphqlMaxTokens=20000
  jsonMaxDepth=64 loginAttemptsPerAddress=100 loginWindow=900 mailLinkTtl=3600 mailsPerAddress=30 mailsPerHour=1000
  mailsPerRecipient=5 maxConnectionsPerAddress=1000 maxQueueTime=200 metricsMaxOperations=100 mfaAttempts=5
  realtimeJoinRate=100 realtimeJoinRatePerAddress=200 realtimeMaxChangeBytes=1048576 realtimeMaxChannels=100
  realtimeMaxChannelsPerAddress=5000 recentSignIn=600 registrationsPerAddress=60 replicaMaxLag=2000 replicaMaxWait=50 replicaSticky=5000
  restBodyLimit=16777216 restMaxConditionDepth=20 restMaxConditions=1000 restMaxEmbedDepth=10 restMaxEmbedFilters=20
  restMaxEmbeds=500 restMaxPatternLength=200 restMaxPatterns=20 sendTimeout=30000 sessionsMax=100 sseHeartbeat=15
  streamConnections=5 streamMaxRows=0 streamTimeout=3600000 taskAnonymousRetention=3600 taskConcurrencyPerOwner=1
  taskMaxPending=100 taskMaxResultBytes=67108864 taskMaxStoredBytes=2147483648 taskMaxStoredBytesPerOwner=268435456
  taskRetention=604800 taskTimeout=600000 userMetadataBytes=4096 wsMaxBufferedBytes=1048576
  wsMaxConnectionsPerAddress=100 wsMaxMessageBytes=65536 wsMaxSubscriptions=100 wsMessageRate=100
  wsMessageRatePerAddress=2000`;

test("without settings, the limits are these", () => {
  const settings = readConfig({});
  const { dbPoolShort, cacheMemory, clientMemoryPerAddress, ...limits } = withLimits(settings);
  expect([dbPoolShort, cacheMemory, clientMemoryPerAddress]).toEqual([
    ...[2 * availableParallelism() + 1, expect.any(Number), undefined],
  ]);
  const others = Object.entries(limits).filter(([name]) => !(name in settings));
  expect(others.map(([name, value]) => `${name}=${value}`).toSorted()).toEqual(LIMITS.trim().split(/\s+/));
});

test.each([
  [{ BODY_LIMIT: "1000" }, { restBodyLimit: 16_000, wsMaxMessageBytes: 63 }],
  [{ MAX_CONNECTIONS: "500" }, { maxConnectionsPerAddress: 50, wsMaxConnectionsPerAddress: 5 }],
  [{ MAX_CONNECTIONS: "500" }, { wsMessageRatePerAddress: 100, realtimeMaxChannelsPerAddress: 250 }],
  [{ LOGIN_ATTEMPTS: "3" }, { loginAttemptsPerAddress: 60 }],
  [{ DB_POOL: "7" }, { streamConnections: 3 }],
  [{ DB_POOL: "1" }, { streamConnections: 0 }],
  [{ DB_PREPARED_STATEMENTS: "0" }, { dbSharedReads: 0 }],
  [{ PGRST_DB_MAX_ROWS: "1000" }, { streamMaxRows: 1000 }],
  [{ DB_STATEMENT_TIMEOUT: "3" }, { dbAnonStatementTimeout: 2 }],
  [{ DB_MAX_ROWS: "5" }, { streamMaxRows: 5 }],
  [OWN, { taskAnonymousRetention: 0 }],
])("with %j, the limits %j follow", (settings, limits) => expect(read(settings)).toMatchObject(limits));

test("caches have a thirty-second of the heap, and at least 64 MiB", () => {
  const share = Math.floor(getHeapStatistics().heap_size_limit / 32);
  expect(read({}).cacheMemory).toBe(Math.max(67_108_864, share));
});

test.each([
  [{}, 1],
  [{ TASK_CONCURRENCY: "1" }, 1],
  [{ TASK_CONCURRENCY: "5" }, 2],
  [{ TASK_CONCURRENCY: "5", WORKERS: "4" }, 10],
])("with %j, %i tasks of a caller run at the same time", (settings, expected) => {
  expect(read(settings).taskConcurrencyPerOwner).toBe(expected);
});

test.each([
  ["on this machine", "postgres://u:p@localhost/d", "", 2 * availableParallelism() + 1],
  ["on this machine", "postgres://u:p@127.0.0.1:5432/d", "", 2 * availableParallelism() + 1],
  ["on this machine, by a socket", "postgres://u:p@%2Fvar%2Frun%2Fpostgresql/d", "", 2 * availableParallelism() + 1],
  ["elsewhere", DATABASE_URL, "", 20],
  ["elsewhere, behind a pooler on this machine", "postgres://u:p@localhost/d", DATABASE_URL, 20],
])("short transactions and shared reads are limited for a database %s", (_, url, directUrl, count) => {
  const environment = { ...OWN, DATABASE_URL: url, DATABASE_DIRECT_URL: directUrl, DB_POOL: "20" };
  expect(read(environment)).toMatchObject({ dbPoolShort: count, dbSharedReads: directUrl === "" ? 4 : 0 });
});

test("a test can replace a limit, also one that follows a setting", () => {
  const lowered = read({ BODY_LIMIT: "1000", DB_MAX_ROWS: "5" }, { restMaxEmbeds: 3, restBodyLimit: 2000 });
  expect(lowered).toMatchObject({ dbMaxRows: 5, restMaxEmbeds: 3, restBodyLimit: 2000, restMaxPatterns: 20 });
});

import { availableParallelism } from "node:os";
import { getHeapStatistics } from "node:v8";
import { expect, test } from "vitest";
import type { Environment } from "../../config/config.ts";
import { type Limits, withLimits } from "../../service/limits.ts";
import { readConfig } from "../support/config.ts";

const DATABASE_URL = "postgres://u:p@db.example.com/d";
const OWN = { DATABASE_URL, JWT_SECRET: "0123456789abcdef0123456789abcdef" };
const read = (environment: Environment, limits?: Limits) => withLimits(readConfig(environment), limits);

test("without settings, the limits are these", () => {
  const settings = readConfig({});
  expect(withLimits(settings)).toEqual({
    ...settings,
    dbPoolShort: 2 * availableParallelism() + 1,
    dbPoolQueue: 10,
    dbPoolShare: 80,
    dbSharedReads: 4,
    dbMaxResultBytes: 16_777_216,
    streamConnections: 5,
    dbAnonStatementTimeout: 5000,
    taskTimeout: 600_000,
    replicaMaxWait: 50,
    replicaSticky: 5000,
    changesMaxBytes: 67_108_864,
    changesOpenTimeout: 8000,
    changesPolicyTimeout: 2000,
    clientMemoryPerAddress: undefined,
    recentSignIn: 600,
    restMaxConditions: 1000,
    restMaxPatterns: 20,
    restMaxPatternLength: 200,
    jsonMaxDepth: 64,
    maxConnectionsPerAddress: 1000,
    sendTimeout: 30_000,
    maxQueueTime: 200,
    wsMaxConnectionsPerAddress: 100,
    wsMaxMessageBytes: 65_536,
    wsMessageRate: 100,
    wsMessageRatePerAddress: 2000,
    wsMaxBufferedBytes: 1_048_576,
    sseHeartbeat: 15,
    drainSpread: 5000,
    metricsMaxOperations: 100,
    cacheMemory: expect.any(Number),
    restMaxEmbedDepth: 10,
    restMaxConditionDepth: 20,
    restMaxEmbeds: 500,
    restMaxEmbedFilters: 20,
    restBodyLimit: 16_777_216,
    apiMaxRecords: 10_000,
    streamMaxRows: 0,
    streamTimeout: 3_600_000,
    graphqlMaxSearches: 20,
    graphqlMaxTokens: 20_000,
    graphqlMaxPageSize: 1000,
    graphqlMaxRows: 100_000,
    wsMaxSubscriptions: 100,
    realtimeMaxChannels: 100,
    realtimeJoinRate: 100,
    realtimeMaxChannelsPerAddress: 5000,
    realtimeJoinRatePerAddress: 200,
    realtimeMaxChangeBytes: 1_048_576,
    loginWindow: 900,
    loginAttemptsPerAddress: 100,
    registrationsPerAddress: 60,
    mfaAttempts: 5,
    mailsPerRecipient: 5,
    mailsPerAddress: 30,
    mailsPerHour: 1000,
    mailLinkTtl: 3600,
    emailReservation: 2_592_000,
    apiKeysMax: 50,
    sessionsMax: 100,
    userMetadataBytes: 4096,
    taskConcurrencyPerOwner: 1,
    taskMaxPending: 100,
    taskMaxResultBytes: 67_108_864,
    taskMaxStoredBytesPerOwner: 268_435_456,
    taskMaxStoredBytes: 2_147_483_648,
    taskRetention: 604_800,
    taskAnonymousRetention: 3600,
  });
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

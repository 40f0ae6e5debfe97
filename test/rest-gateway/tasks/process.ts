// A process that runs tasks until SIGTERM. Its argument is JSON: `{ logins, settings }`.
import pino from "pino";
import { Database } from "../../../db/database.ts";
import { StatementTimeouts } from "../../../db/transaction/live-settings.ts";
import { addressReader } from "../../../http/pipeline/request.ts";
import { createTasks } from "../../../rest-gateway/tasks/index.ts";
import { sqlTaskHandler } from "./sql-task-handler.ts";

const { logins, settings } = JSON.parse(process.argv[2]!);
const onConnectionError = () => {};
const database = new Database({
  logins,
  ...settings,
  poolSize: 2,
  poolShort: 2,
  poolShare: 100,
  budget: { total: 0, perAddress: 0 },
  statementTimeouts: new StatementTimeouts({ everyone: 10_000, anonymous: 0, anonymousRoles: [] }),
  maxResultBytes: 0,
  log: pino({ level: "silent" }),
  onConnectionError,
});
const log = pino({ level: "silent" });
const isStillCaller = async () => true;
const tasks = createTasks({
  ...{ settings, database, logins, url: logins.tasks, isStillCaller, log, onConnectionError },
  addressOf: addressReader([]),
  addressKey: Buffer.alloc(32),
});
tasks.register("resource", sqlTaskHandler);
await tasks.start();
process.stdout.write("ready\n");
process.on("SIGTERM", async () => {
  const closed = tasks.close();
  process.stdout.write("stopping\n");
  await closed;
  await database.close();
});

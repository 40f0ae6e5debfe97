// A process that runs tasks until SIGTERM. Its argument is JSON: `{ logins, settings }`.
import pino from "pino";
import { addressReader } from "../../../gate/pipeline/exchange.ts";
import { createTasks } from "../../../parts/tasks/tasks.ts";
import { openCore } from "../../../service/core.ts";
import { withLimits } from "../../../service/limits.ts";
import { readConfig } from "../../support/config.ts";
import { sqlTaskHandler } from "./sql-task-handler.ts";

const { logins, settings } = JSON.parse(process.argv[2]!);
const onConnectionError = () => {};
const config = { ...withLimits(readConfig({})), ...settings, dbPool: 2, dbPoolShort: 2, clientMemory: 0 };
const { database } = await openCore(config, "database", { logins, anonymousRoles: [] });
const log = pino({ level: "silent" });
const isStillCaller = async () => true;
const tasks = createTasks({
  own: [],
  ofService: {},
  ...{ settings, database, url: logins.tasks, isStillCaller, log, onConnectionError },
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

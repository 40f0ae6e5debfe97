import cluster from "node:cluster";
import type { Logger } from "pino";
import { describeOwn } from "./app/application.ts";
import { type Configured, configure } from "./app/configured.ts";
import { loadApplication } from "./app/load.ts";
import { printBanner } from "./cli/banner.ts";
import { COMMAND } from "./config/command.ts";
import { ConfigError, folderIn, helpText } from "./config/config.ts";
import { embeddedPrograms, MissingServer } from "./db/cluster/embedded-programs.ts";
import { createLog } from "./http/pipeline/log.ts";
import { findSharedPort } from "./http/process/server.ts";
import { serveAsWorker, startWorkers } from "./http/process/workers.ts";
import { secretOf } from "./identity/keys.ts";
import { createTokens } from "./identity/tokens.ts";
import { openConfigured } from "./service/app.ts";
import { leaveRoot } from "./service/leave-root.ts";
import { refuseClashes } from "./service/routes.ts";
import { closeInspector, handleSignals, stopTimeoutOf } from "./service/signals.ts";
import { type Started, startService } from "./service/start.ts";
import { takeOver } from "./service/takeover.ts";

export { type Service, startService } from "./service/start.ts";

async function main(): Promise<void> {
  const given = process.argv.slice(2);
  if (given.includes("--help") || given.includes("-h"))
    return void process.stdout.write(helpText(await ownSettings(given.find((argument) => !argument.startsWith("-")))));
  const [folder, ...more] = given;
  const unknown = folder?.startsWith("-") ? folder : more[0];
  if (unknown !== undefined)
    return refuse(`${unknown} is not an option of this service: ${COMMAND} start --help lists the settings`);

  let configured: Configured;
  try {
    configured = await configure({ folder });
    refuseClashes(configured.application);
    if (configured.config.embedded) await embeddedPrograms();
  } catch (error) {
    if (error instanceof ConfigError || error instanceof MissingServer) return refuse(error.message);
    throw error;
  }
  const { config, application, reread } = configured;
  const log = createLog(config.logLevel, cluster.isWorker ? { worker: cluster.worker!.id, pid: process.pid } : null);
  const listensLast = cluster.isWorker && cluster.worker!.id > config.workers;
  closeInspector();
  if (cluster.isWorker)
    return serveAsWorker(
      (open) => startService(config, log, { application, open, listensLast, reread, ownsProcess: true }),
      log,
    );
  if (config.ignored.length > 0) log.warn({ settings: config.ignored }, "these settings of PostgREST have no effect");
  let hasStarted = false;
  const starting = start(configured, log, () => {
    hasStarted = true;
  });
  handleSignals(starting, { stopTimeout: stopTimeoutOf(config), mayExit: () => !config.embedded && !hasStarted, log });
  try {
    const service = await starting;
    service.databaseLost.then(() => {
      log.fatal("the embedded database has ended");
      process.exit(1);
    });
    // After the warnings: someone who reads the URLs last takes them for "all is well".
    await service.checked;
    printBanner(configured, service);
  } catch (error) {
    log.fatal(`the service cannot start: ${(error as Error).message}`);
    log.debug({ err: error }, "the cause");
    process.exitCode = 1;
  }
}

/**
 * Starts the service, not as root if possible. With TAKEOVER it takes over from the running service, and later hands over to a newer one in the same way.
 * `onStarted` is called when the service serves requests.
 */
async function start(configured: Configured, log: Logger, onStarted: () => void): Promise<Started> {
  const { config, application, reread } = configured;
  const { workers, takeover: path } = config;
  await leaveRoot(configured, log);
  const service = await (workers > 1
    ? startInProcesses(configured, log)
    : startService(config, log, { application, reread, ownsProcess: true }));
  onStarted();
  const onReplaced = () => service.handOver().then(() => process.kill(process.pid, "SIGTERM"));
  try {
    if (path !== "") await takeOver({ path, log, onReplaced });
    return service;
  } catch (error) {
    await service.stop();
    throw error;
  }
}

/** Starts the service in worker processes. */
async function startInProcesses(configured: Configured, log: Logger): Promise<Started> {
  const { config } = configured;
  const { workers: count, instanceId } = config;
  const stopTimeout = stopTimeoutOf(config);
  const tokens = createTokens(config, await secretOf(config));
  // With TAKEOVER, PORT is fixed and the running service may still listen on it: no free port is searched for.
  const port = config.takeover === "" ? await findSharedPort(config) : config.port;
  const environment = { PORT: String(port), PGRST_SERVER_PORT: "" };
  const options = { count, environment, instanceId, stopTimeout, open: () => openConfigured(configured, log), log };
  return { tokens, ...(await startWorkers(options)) };
}

/** The settings of the application, if it can be read. */
const ownSettings = (folder = folderIn()) => loadApplication(folder).then(describeOwn, () => []);

const refuse = (message: string): void => {
  process.stderr.write(`${message}\n`);
  process.exitCode = 2;
};

if (import.meta.main) await main();

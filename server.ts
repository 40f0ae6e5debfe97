import cluster from "node:cluster";
import { join } from "node:path";
import type { Logger } from "pino";
import { describeOwn } from "./app/application.ts";
import { type Configured, configure, misspeltSettings } from "./app/configured.ts";
import { findApplication, loadApplication } from "./app/load.ts";
import { printBanner } from "./cli/banner.ts";
import { COMMAND } from "./config/command.ts";
import { addDotEnv, type Config, ConfigError, folderIn, variablesOf } from "./config/config.ts";
import { knownSettings, settingsOfParts } from "./config/declared.ts";
import { helpText } from "./config/help.ts";
import { WITHOUT_EFFECT } from "./config/postgrest-names.ts";
import { refuseWithoutConnections, whyNotStarted } from "./db/cluster/connections.ts";
import { embeddedPrograms, MissingServer } from "./db/cluster/embedded-programs.ts";
import { baseOf } from "./db/cluster/migrations-folder.ts";
import type { OpenedDatabase } from "./db/cluster/open.ts";
import { createLog } from "./gate/pipeline/log.ts";
import { findSharedPort } from "./gate/process/server.ts";
import { failAsWorker, type RunningWorkers, serveAsWorker, startWorkers } from "./gate/process/workers.ts";
import { secretOf } from "./identity/keys.ts";
import { createTokens } from "./identity/tokens.ts";
import { PARTS } from "./parts/list.ts";
import { leaveRoot } from "./service/leave-root.ts";
import { openConfigured } from "./service/open.ts";
import type { Part } from "./service/part.ts";
import { descriptionsOf, pagesOf, partsFor, withOwnParts } from "./service/parts.ts";
import { refuseClashes } from "./service/routes.ts";
import { closeInspector, handleSignals, stopTimeoutOf } from "./service/signals.ts";
import { type Service, type Started, type StartOptions, startService as startWithParts } from "./service/start.ts";
import { refuseOtherFile, takeOver } from "./service/takeover.ts";

export type { Service } from "./service/start.ts";

/** Starts the service with the parts that the settings name. Throws ConfigError, and rejects, with nothing left running, if it fails. */
export async function startService(config: Config, log: Logger, options: StartOptions = {}): Promise<Service> {
  const { application } = options;
  const list = application ? withOwnParts(PARTS, application) : PARTS;
  const parts = await partsFor(list, config, application ?? { mailFolder: null });
  return startWithParts(config, log, { parts, ...options });
}

async function main(): Promise<void> {
  const isDev = process.argv[2] === DEV;
  const given = process.argv.slice(isDev ? 3 : 2);
  if (given.includes("--help") || given.includes("-h"))
    return void process.stdout.write(await help(given.find((argument) => !argument.startsWith("-"))));
  const [folder, ...more] = given;
  const unknown = folder?.startsWith("-") ? folder : more[0];
  if (unknown !== undefined)
    return refuse(`${unknown} is not an option of this service: ${COMMAND} start --help lists the settings`);

  let configured: Configured;
  let parts: readonly Part[];
  let fromFile: readonly string[] = [];
  try {
    if (isDev) fromFile = addDotEnv(applicationFor(folder));
    configured = await configure({ folder, ofParts: await settingsOfParts(PARTS) });
    if (cluster.isPrimary) for (const line of misspeltSettings(fromFile, configured.config)) process.stderr.write(line);
    parts = await partsFor(withOwnParts(PARTS, configured.application), configured.config, configured.application);
    refuseClashes(configured.application, parts);
    if (configured.config.embedded) {
      refuseWithoutDatabase(configured.application, isDev);
      await embeddedPrograms();
    }
  } catch (error) {
    if (cluster.isWorker) return failAsWorker(messageOf(error));
    if (error instanceof ConfigError || error instanceof MissingServer) return refuse(error.message);
    throw error;
  }
  const { config, application, reread } = configured;
  const log = createLog(config.logLevel, cluster.isWorker ? { worker: cluster.worker!.id, pid: process.pid } : null);
  // Node would print all fields of an error, such as a row in the detail of one of the database, and no line of the log.
  process.on("uncaughtException", (err) => {
    log.fatal({ err }, "the process ends, because nothing has handled an error");
    process.exit(1);
  });
  const listensLast = cluster.isWorker && cluster.worker!.id > config.workers;
  closeInspector();
  if (cluster.isWorker)
    return serveAsWorker(
      (open) =>
        startService(config, log, { application, open, listensLast, isDev, reread, ownsProcess: true }).catch(
          (error) => {
            // Of the error, the primary process gets only the message.
            throw new Error(whyNotStarted(error, config), { cause: error });
          },
        ),
      log,
    );
  if (config.ignored.length > 0) log.warn({ settings: config.ignored }, WITHOUT_EFFECT);
  let hasStarted = false;
  const onStarted = () => {
    hasStarted = true;
  };
  const starting: Promise<Started & { readonly replace?: () => Promise<void> }> = isDev
    ? startInProcesses(
        configured,
        log,
        () => openConfigured(configured, log, { parts, runsCurrent: true }),
        environmentOfDev(fromFile),
      )
    : start(configured, parts, log, onStarted);
  handleSignals(starting, { stopTimeout: stopTimeoutOf(config), mayExit: () => !config.embedded && !hasStarted, log });
  try {
    const service = await starting;
    service.databaseLost.then(() => {
      log.fatal("the embedded database has ended");
      process.exit(1);
    });
    printBanner(configured, service, pagesOf(parts, config, true));
    await service.checked;
    if (isDev) await follow(configured, parts, () => service.replace!());
  } catch (error) {
    log.fatal(`the service cannot start: ${whyNotStarted(error, config)}`);
    log.debug({ err: error }, "the cause");
    process.exitCode = 1;
  }
}

/**
 * Starts the service, not as root if possible. With TAKEOVER it takes over from the running service, and later hands over to a newer one in the same way.
 * `onStarted` is called when the service serves requests.
 */
async function start(
  configured: Configured,
  parts: readonly Part[],
  log: Logger,
  onStarted: () => void,
): Promise<Started> {
  const { config, application, reread } = configured;
  const { workers, takeover: path } = config;
  await leaveRoot(configured, parts, log);
  if (path !== "") await refuseOtherFile(path);
  let opening: Promise<OpenedDatabase> | undefined;
  const open = () => {
    opening = openConfigured(configured, log, { parts });
    return opening;
  };
  const service = await (workers > 1
    ? startInProcesses(configured, log, open)
    : startService(config, log, { application, open, reread, ownsProcess: true }));
  onStarted();
  const mayReplace = async () => refuseWithoutConnections((await opening!).logins, config);
  const onReplaced = () => service.handOver().then(() => process.kill(process.pid, "SIGTERM"));
  try {
    if (path !== "") await takeOver({ path, log, mayReplace, onReplaced });
    return service;
  } catch (error) {
    await service.stop();
    throw error;
  }
}

/** Starts the service in worker processes. */
async function startInProcesses(
  configured: Configured,
  log: Logger,
  open: () => Promise<OpenedDatabase>,
  forDev: Readonly<Record<string, string | undefined>> | null = null,
): Promise<Started & RunningWorkers> {
  const { config } = configured;
  const { instanceId } = config;
  const count = forDev === null ? config.workers : 1;
  const stopTimeout = stopTimeoutOf(config);
  const tokens = createTokens(config, await secretOf(config));
  // With TAKEOVER, PORT is fixed and the running service may still listen on it: no free port is searched for.
  const port = config.takeover === "" ? await findSharedPort(config) : config.port;
  const environment = { PORT: String(port), PGRST_SERVER_PORT: "", ...forDev };
  const options = { count, environment, instanceId, stopTimeout, open, log };
  return { tokens, ...(await startWorkers(options)) };
}

/** The first argument of `content-service dev`. */
const DEV = "--dev";

function applicationFor(folder = folderIn()): string {
  const found = findApplication(folder);
  if (found !== null) return found;
  throw new ConfigError(`there is no application here: ${COMMAND} init makes one`);
}

/** Nothing makes the tables of an application for a database that exists. Throws ConfigError. */
function refuseWithoutDatabase({ folder }: Configured["application"], isDev: boolean): void {
  if (folder === null || baseOf(join(folder, "db")) === null) return;
  const { SETTINGS_FILE } = variablesOf(["SETTINGS_FILE"]);
  const place = SETTINGS_FILE || (isDev ? join(folder, ".env") : "a file, and name the file in SETTINGS_FILE");
  throw new ConfigError(
    `DATABASE_URL is not set; this application was made for an existing database (it has db/base). Set it in ${place}, or in the ` +
      `environment${isDev || SETTINGS_FILE ? "" : `. ${COMMAND} start does not read .env; ${COMMAND} dev does`}`,
  );
}

/** One worker, which reads the file of the environment again. */
const environmentOfDev = (fromFile: readonly string[]) => ({
  ...Object.fromEntries(fromFile.map((name) => [name, undefined])),
  WORKERS: "1",
});

async function follow(configured: Configured, parts: readonly Part[], replace: () => Promise<void>): Promise<void> {
  // Loaded only here: it runs migrations.
  const { followFiles } = await import("./cli/dev.ts");
  const print = (text: string) => void process.stdout.write(text);
  const folder = configured.application.folder!;
  await followFiles({ folder, configured, descriptions: descriptionsOf(parts), replace, print });
}

/** An error of the application that is not a ConfigError has the line in its stack. */
const messageOf = (error: unknown): string =>
  error instanceof ConfigError ? error.message : String((error as Error).stack ?? error);

/** The settings of the application, if it can be read. */
async function help(folder = folderIn()): Promise<string> {
  const own = await loadApplication(folder).then(describeOwn, () => []);
  return helpText(knownSettings(await settingsOfParts(PARTS)), own);
}

const refuse = (message: string): void => {
  process.stderr.write(`${message}\n`);
  process.exitCode = 2;
};

if (import.meta.main) await main();

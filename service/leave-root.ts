import {
  chownSync,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { flushCompileCache } from "node:module";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Configured } from "../app/configured.ts";
import { configFileIn } from "../app/load.ts";
import { findServerUser, findSystemUser, type SystemUser } from "../db/cluster/system-user.ts";

/**
 * If root has started this process, makes it run as the system user from now on: that of the embedded server, or `content-service`.
 * Its worker processes then run as that user too. If the user could not do what the service must do, such as read its settings
 * again, the process stays root and logs why. Throws if there is no user for the embedded server, which does not run as root.
 */
export async function leaveRoot(configured: Configured, log: Logger): Promise<void> {
  const { config } = configured;
  if (process.getuid?.() !== 0) return;
  const serverUser = config.embedded ? await findServerUser(join(config.dataDir, "postgres")) : undefined;
  try {
    if (serverUser) giveData(config.dataDir, serverUser);
    const user = serverUser ?? (await findSystemUser());
    tryAs(user, () => assertUsable(configured, user));
    // Root may write the cache; the user must not, because the next start by root runs what is in it.
    flushCompileCache();
    become(user);
  } catch (error) {
    log.warn({ reason: (error as Error).message }, "the service keeps running as root");
  }
}

/** The names that the service and its embedded server use in DATA_DIR. */
const OWN_NAMES = /^(postgres|postgres-password|secret)($|\.)/;

/** Makes DATA_DIR the property of the user, if root owns it and it has nothing of others. */
function giveData(dataDir: string, { uid, gid }: SystemUser): void {
  mkdirSync(dataDir, { recursive: true });
  const names = readdirSync(dataDir);
  const owner = statSync(dataDir).uid;
  if (owner === 0 && names.every((name) => OWN_NAMES.test(name))) chownSync(dataDir, uid, gid);
  else if (owner !== uid) return;
  for (const name of names) if (OWN_NAMES.test(name)) giveFile(join(dataDir, name), uid, gid);
}

/** Only a file that root has created here: the user could have replaced it by a link to another one. */
function giveFile(path: string, uid: number, gid: number): void {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isFile()) return;
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(file);
    if (found.isFile() && found.uid === 0 && found.nlink === 1) fchownSync(file, uid, gid);
  } finally {
    closeSync(file);
  }
}

/** Runs `check` with the rights of the user. */
function tryAs({ uid, gid }: SystemUser, check: () => void): void {
  const groups = process.getgroups!();
  try {
    process.setgroups!([gid]);
    process.setegid!(gid);
    process.seteuid!(uid);
    check();
  } finally {
    process.seteuid!(0);
    process.setegid!(0);
    process.setgroups!(groups);
  }
}

/** Throws if the service could not do with the rights of this process what it must do while it runs. */
function assertUsable({ config, application, reread }: Configured, user: SystemUser): void {
  const { embedded, dataDir, takeover, advisorAccepted, port, adminPort } = config;
  for (const each of [port, adminPort]) assertPort(each);
  // For worker processes, modules that are loaded later, and a reload of the settings.
  const own = application.folder === null ? [] : [configFileIn(application.folder)!];
  const files = [process.execPath, import.meta.filename, ...own, ...(advisorAccepted ? [advisorAccepted] : [])];
  for (const file of files) closeSync(openSync(file, "r"));
  readAgain(reread);
  if (embedded) rmSync(mkdtempSync(join(dataDir, "postgres.new-")), { recursive: true, force: true });
  if (takeover === "") return;
  rmdirSync(mkdtempSync(`${takeover}.`));
  const running = statSync(takeover, { throwIfNoEntry: false });
  if (running && running.uid !== user.uid) throw new Error(`TAKEOVER: the running service runs as uid ${running.uid}`);
}

/** The settings that the process has were read by root. */
function readAgain(reread: () => void): void {
  try {
    reread();
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`the settings are in use, but the system user could not read them again: ${message}`, {
      cause: error,
    });
  }
}

/** Source: Linux, Documentation/networking/ip-sysctl.rst. */
const FIRST_PORT = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

function assertPort(port: number): void {
  if (port === 0 || port >= firstPort()) return;
  throw new Error(
    `only root may listen on port ${port}: let a proxy listen there, or lower net.ipv4.ip_unprivileged_port_start`,
  );
}

function firstPort(): number {
  try {
    return Number(readFileSync(FIRST_PORT, "utf8"));
  } catch {
    return 1024;
  }
}

/** Forever: the real and the saved user change too. */
function become({ uid, gid }: SystemUser): void {
  process.setgroups!([gid]);
  process.setgid!(gid);
  process.setuid!(uid);
}

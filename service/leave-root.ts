import {
  chownSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { flushCompileCache, getCompileCacheDir } from "node:module";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Configured } from "../app/configured.ts";
import { configFileIn } from "../app/load.ts";
import { acceptanceFile } from "../config/advisor.ts";
import { makeFolder } from "../db/cluster/folders.ts";
import { findServerUser, findSystemUser, type SystemUser } from "../db/cluster/system-user.ts";
import type { Part } from "./part.ts";
import { loadPlugins } from "./parts.ts";

/**
 * If root has started this process, makes it run as the system user from now on: that of the embedded server, or `content-service`.
 * Its worker processes then run as that user too. If the user could not do what the service must do, such as read its settings
 * again, the process stays root and logs why. Throws if there is no user for the embedded server, which does not run as root.
 */
export async function leaveRoot(configured: Configured, parts: readonly Part[], log: Logger): Promise<void> {
  const { config } = configured;
  if (process.getuid?.() !== 0) return;
  const serverUser = config.embedded ? await findServerUser(join(config.dataDir, "postgres")) : undefined;
  try {
    if (serverUser) giveData(config.dataDir, serverUser);
    const user = serverUser ?? (await findSystemUser());
    tryAs(user, () => assertUsable(configured, user));
    await shareCompiled(configured, parts, user);
    become(user);
  } catch (error) {
    log.warn({ reason: (error as Error).message }, "the service keeps running as root");
  }
}

/**
 * Root may write the cache of Node; the user may only read it, because the next start by root runs what is in it. What a start loads as
 * the user is compiled now if the cache may not have it: otherwise each start would compile it, which takes time and 20 MB.
 */
async function shareCompiled(
  { config, application }: Configured,
  parts: readonly Part[],
  { gid }: SystemUser,
): Promise<void> {
  const folder = getCompileCacheDir();
  if (folder === undefined || !mkdirOfRoot(folder)) return;
  const before = statSync(folder).mtimeMs;
  flushCompileCache();
  const marker = join(folder, "complete");
  const completeAt = statSync(marker, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const isComplete = statSync(folder).mtimeMs === before && LATER.every((each) => newestIn(each) < completeAt);
  if (!isComplete && config.hasGraphQL) {
    await import("../graphql/index.ts");
    // An error in a plugin is reported when GraphQL is loaded.
    await loadPlugins(parts, application, config).catch(() => {});
    flushCompileCache();
    writeFileSync(marker, "");
  }
  for (const name of readdirSync(folder)) if (COMPILED.test(name)) letRead(join(folder, name), gid);
}

/** The sources that are loaded later. */
const LATER = ["../graphql", "../plugins", "../parts"].map((each) => join(import.meta.dirname, each));
const COMPILED = /^[0-9a-f]{8}$/;

const newestIn = (folder: string): number =>
  Math.max(...readdirSync(folder, { recursive: true }).map((each) => statSync(join(folder, String(each))).mtimeMs));

function mkdirOfRoot(folder: string): boolean {
  makeFolder(folder);
  const { uid, mode } = lstatSync(folder);
  return uid === 0 && (mode & 0o022) === 0;
}

function letRead(path: string, gid: number): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.gid === gid) return;
  withFileOfRoot(path, (file) => {
    fchownSync(file, 0, gid);
    fchmodSync(file, 0o640);
  });
}

/** The names that the service and its embedded server use in DATA_DIR. */
const OWN_NAMES = /^(postgres|postgres-password|secret)($|\.)/;

/** Makes DATA_DIR the property of the user, if root owns it and it has nothing of others. */
function giveData(dataDir: string, { uid, gid }: SystemUser): void {
  makeFolder(dataDir);
  const names = readdirSync(dataDir);
  const owner = statSync(dataDir).uid;
  if (owner === 0 && names.every((name) => OWN_NAMES.test(name))) chownSync(dataDir, uid, gid);
  else if (owner !== uid) return;
  for (const name of names) if (OWN_NAMES.test(name)) giveFile(join(dataDir, name), uid, gid);
}

function giveFile(path: string, uid: number, gid: number): void {
  withFileOfRoot(path, (file) => fchownSync(file, uid, gid));
}

/** Only a file that root has created here: the user could have replaced it by a link to another one. */
function withFileOfRoot(path: string, change: (file: number) => void): void {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isFile()) return;
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(file);
    if (found.isFile() && found.uid === 0 && found.nlink === 1) change(file);
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
  const { embedded, dataDir, takeover, advisor, port, adminPort } = config;
  for (const each of [port, adminPort]) assertPort(each);
  // For worker processes, modules that are loaded later, and a reload of the settings.
  const own = application.folder === null ? [] : [configFileIn(application.folder)!];
  const accepted = acceptanceFile(advisor);
  const files = [process.execPath, import.meta.filename, ...own, ...(accepted === null ? [] : [accepted])];
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

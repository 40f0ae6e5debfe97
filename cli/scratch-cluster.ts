import { existsSync } from "node:fs";
import { chmod, lstat, mkdtemp, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { variablesOf } from "../config/config.ts";
import { type Cluster, startCluster } from "../db/cluster/embedded.ts";

/** A file system in memory. On a disk a third of PostgreSQL's CPU time is spent on creating and deleting files. */
const MEMORY_FOLDER = "/dev/shm";

const DISK_FOLDER = "/tmp";

/** Several times what the tests of a run take. */
const NEEDED_BYTES = 4_000_000_000;

/** A temporary cluster; `remove()` deletes it with its data. */
export type ScratchCluster = Cluster & { readonly dataDir: string; remove(): Promise<void> };

/** With the programs of TEST_POSTGRES, unless `binaries` names others. */
export async function startScratchCluster(binaries = testPrograms(), parent?: string): Promise<ScratchCluster> {
  const folder = await mkdtemp(join(parent ?? (await findTemporaryFolder()), "content-scratch-"));
  // When started by root, PostgreSQL runs as a separate user, which must be able to enter the folder.
  await chmod(folder, 0o711);
  const dataDir = join(folder, "postgres");
  const options = { dataDir, password: "scratch", durable: false, copies: await findCopies() };
  const cluster = await startCluster(binaries === undefined ? options : { ...options, binaries });
  const remove = async () => {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { ...cluster, dataDir, remove };
}

/**
 * Below TMPDIR: the tests of this repository, which start a hundred scratch clusters, create and delete it. Clusters that are copies
 * have one system identifier.
 */
export const COPIES = "content-data-directories";

/** Undefined without such a folder, and if it belongs to another user, who could have put anything there. */
async function findCopies(): Promise<string | undefined> {
  const folder = join(tmpdir(), COPIES);
  const found = await lstat(folder).catch(() => null);
  return found !== null && found.uid === process.getuid?.() ? folder : undefined;
}

/** The folder that TMPDIR names; without it, in memory if there is room, else on the disk. */
export async function findTemporaryFolder(): Promise<string> {
  if (tmpdir() !== DISK_FOLDER) return tmpdir();
  const memory = await statfs(MEMORY_FOLDER).catch(() => null);
  return memory !== null && memory.bavail * memory.bsize >= NEEDED_BYTES ? MEMORY_FOLDER : DISK_FOLDER;
}

/** Of a server with more extensions than the embedded one; undefined for that. */
function testPrograms(): string | undefined {
  const folder = variablesOf(["TEST_POSTGRES"]).TEST_POSTGRES || undefined;
  if (folder !== undefined && !existsSync(join(folder, "postgres")))
    throw new Error(`TEST_POSTGRES: PostgreSQL was not found in ${folder}: ${join(folder, "postgres")} does not exist`);
  return folder;
}

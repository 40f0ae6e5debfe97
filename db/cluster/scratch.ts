import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Cluster, startCluster } from "./embedded.ts";

/** A throw-away cluster: what is done on it is gone with `remove()`. */
export type ScratchCluster = Cluster & { remove(): Promise<void> };

export async function startScratchCluster(binaries?: string): Promise<ScratchCluster> {
  const folder = await mkdtemp(join(tmpdir(), "content-scratch-"));
  // As root, PostgreSQL runs as a user of its own, which must get through.
  await chmod(folder, 0o711);
  const options = { dataDir: join(folder, "postgres"), password: "scratch", durable: false };
  const cluster = await startCluster(binaries === undefined ? options : { ...options, binaries });
  const remove = async () => {
    await cluster.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { ...cluster, remove };
}

import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Outcome, Plan } from "./replace.ts";

const REPLACE = fileURLToPath(new URL("replace.ts", import.meta.url));

export type IsolatedPlan = Omit<Plan, "takeover"> & {
  /** The value of net.ipv4.tcp_migrate_req. */
  readonly migrates: boolean;
};

/**
 * Carries out the plan in a network of its own, whose setting may differ from that of the machine. The database is reached through a
 * Unix socket.
 */
export async function replaceIn({ migrates, ...plan }: IsolatedPlan, signal: AbortSignal): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "upgrade-"));
  chmodSync(folder, 0o700);
  const relay = relayTo(new URL(plan.databaseUrl), join(folder, ".s.PGSQL.5432"));
  try {
    await once(relay, "listening");
    const databaseUrl = throughSocket(plan.databaseUrl, folder);
    const inner: Plan = { ...plan, databaseUrl, takeover: join(folder, "takeover") };
    const program = `ip link set lo up && echo ${migrates ? 1 : 0} > /proc/sys/net/ipv4/tcp_migrate_req && exec "$@"`;
    const args = ["sh", "-c", program, "sh", process.execPath, REPLACE, JSON.stringify(inner)];
    // In its own namespace of users every user is root, who may change the setting.
    const { stdout } = await promisify(execFile)("unshare", ["--net", "--map-root-user", ...args], { signal });
    return JSON.parse(stdout);
  } finally {
    relay.close();
    rmSync(folder, { recursive: true });
  }
}

function relayTo({ hostname, port }: URL, path: string) {
  return createServer((client) => {
    const database = connect(Number(port), hostname);
    for (const [from, to] of [[client, database] as const, [database, client] as const]) {
      from.on("error", () => {});
      from.on("close", () => to.destroy());
      from.pipe(to);
    }
  }).listen(path);
}

function throughSocket(databaseUrl: string, folder: string): string {
  const { username, password, pathname } = new URL(databaseUrl);
  return `postgres://${username}:${password}@${encodeURIComponent(folder)}${pathname}`;
}

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { findServerUser } from "../../db/cluster/system-user.ts";

const PGBOUNCER = "/usr/sbin/pgbouncer";

export const hasPgBouncer = existsSync(PGBOUNCER);
if (!hasPgBouncer) console.warn(`skipped: the service behind a pooler, because ${PGBOUNCER} is not installed`);

export type Pooler = {
  /** The connection string with the pooler instead of the server. */
  pooled(url: string): string;
  stop(): Promise<void>;
};

/** PgBouncer in transaction mode, with two connections to the server per login. `logins` are connection strings of one database. */
export async function startPooler(logins: readonly string[]): Promise<Pooler> {
  const { hostname, port: serverPort, pathname } = new URL(logins[0]!);
  const name = pathname.slice(1);
  const port = await findFreePort();
  const folder = await mkdtemp(join(tmpdir(), "pooler-"));
  const users = logins.map((url) => new URL(url));
  const files = {
    users: users.map(({ username, password }) => `"${username}" "${password}"\n`).join(""),
    "pgbouncer.ini": `[databases]
${name} = host=${hostname} port=${serverPort} dbname=${name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
auth_type = plain
auth_file = ${join(folder, "users")}
pool_mode = transaction
default_pool_size = 2
unix_socket_dir =
`,
  };
  // PgBouncer does not run as root.
  const user = userInfo().uid === 0 ? await findServerUser(folder) : undefined;
  await chmod(folder, 0o711);
  for (const [file, text] of Object.entries(files)) {
    await writeFile(join(folder, file), text);
    if (user) await chown(join(folder, file), user.uid, user.gid);
  }
  const child = spawn(PGBOUNCER, [join(folder, "pgbouncer.ini")], { stdio: "ignore", ...user });
  await vi.waitUntil(() => accepts(port), { timeout: 120_000 });
  return {
    pooled: (url) => Object.assign(new URL(url), { port: String(port) }).href,
    async stop() {
      child.kill("SIGKILL");
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });

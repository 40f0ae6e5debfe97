import { existsSync } from "node:fs";
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { findServerUser } from "../../db/cluster/system-user.ts";
import { Program } from "./program.ts";
import { accepts } from "./until.ts";

const PGBOUNCER = "/usr/sbin/pgbouncer";

export const hasPgBouncer = existsSync(PGBOUNCER);
if (!hasPgBouncer) console.warn(`skipped: the service behind a pooler, because ${PGBOUNCER} is not installed`);

export type Pooler = {
  readonly port: number;
  readonly program: Program;
  /** The connection string with the pooler instead of the server. */
  pooled(url: string): string;
  stop(): Promise<void>;
};

/** PgBouncer in transaction mode, with two connections to the server per login. `logins` are connection strings of one database. */
export function startPooler(logins: readonly string[]): Promise<Pooler> {
  const { hostname, port, pathname } = new URL(logins[0]!);
  const name = pathname.slice(1);
  const users = logins.map((url) => new URL(url));
  const list = users.map(({ username, password }) => `"${username}" "${password}"\n`).join("");
  return start(
    list,
    (ownPort, usersFile) => `[databases]
${name} = host=${hostname} port=${port} dbname=${name}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${ownPort}
auth_type = plain
auth_file = ${usersFile}
pool_mode = transaction
default_pool_size = 2
`,
  );
}

/** PgBouncer with the configuration of deploy/pgbouncer/. `url` is the connection string of the superuser. */
export async function startDocumentedPooler(url: string, log?: string): Promise<Pooler> {
  const text = await readFile("deploy/pgbouncer/pgbouncer.ini", "utf8");
  const { hostname, port, pathname, username, password } = new URL(url);
  const configOf = (ownPort: number, usersFile: string) =>
    text
      .replace("content = host=db.example.com port=5432", `${pathname.slice(1)} = host=${hostname} port=${port}`)
      .replace("6432", String(ownPort))
      .replace("/etc/pgbouncer/userlist.txt", usersFile);
  return start(`"${username}" "${password}"\n`, configOf, log);
}

/** `configOf` gets the port to listen on and the file of the users. */
async function start(
  users: string,
  configOf: (port: number, usersFile: string) => string,
  log?: string,
): Promise<Pooler> {
  const port = await findFreePort();
  const folder = await mkdtemp(join(tmpdir(), "pooler-"));
  const config = `${configOf(port, join(folder, "users"))}unix_socket_dir =\n`;
  // PgBouncer does not run as root.
  const user = userInfo().uid === 0 ? await findServerUser(folder) : undefined;
  await chmod(folder, 0o711);
  for (const [file, text] of Object.entries({ users, "pgbouncer.ini": config })) {
    await writeFile(join(folder, file), text);
    if (user) await chown(join(folder, file), user.uid, user.gid);
  }
  const program = await Program.start({
    command: [PGBOUNCER, join(folder, "pgbouncer.ini")],
    user,
    ...(log !== undefined && { log }),
    isReady: () => accepts(port),
  });
  return {
    ...{ port, program },
    pooled: (url) => Object.assign(new URL(url), { port: String(port) }).href,
    async stop() {
      await program.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

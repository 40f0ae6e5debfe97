import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { withClient } from "../../db/cluster/client.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { Program } from "./program.ts";
import { accepts } from "./until.ts";

const HAPROXY = "/usr/sbin/haproxy";

export const hasHaproxy = existsSync(HAPROXY);
if (!hasHaproxy) console.warn(`skipped: what is behind HAProxy, because ${HAPROXY} is not installed`);

export type Haproxy = { readonly port: number; readonly program: Program; stop(): Promise<void> };

/**
 * HAProxy with the configuration of deploy/proxy/ in front of database servers, whose health is answered as Patroni does. `urls`
 * are connection strings of one database.
 */
export async function startHaproxy(urls: readonly string[], log?: string): Promise<Haproxy> {
  const health = await Promise.all(urls.map(startHealth));
  const servers = urls.map((url, at) => `127.0.0.1:${new URL(url).port} check port ${health[at]!.port}`);
  // It accepts connections before it knows which server is the primary.
  const answers = (port: number) =>
    withClient(Object.assign(new URL(urls[0]!), { port: String(port) }).href, (client) => client.query("select")).then(
      () => true,
      () => false,
    );
  const { stop, ...haproxy } = await start("haproxy-primary.cfg", "127.0.0.1:5000", servers, answers, log);
  return {
    ...haproxy,
    async stop() {
      await stop();
      for (const each of health) each.stop();
    },
  };
}

/** HAProxy with the configuration of deploy/proxy/ in front of instances of the service, which listen on these ports. */
export const startHaproxyOfInstances = (ports: readonly number[], log?: string): Promise<Haproxy> =>
  start(
    "haproxy.cfg",
    "127.0.0.1:8080",
    ports.map((port) => `127.0.0.1:${port}`),
    accepts,
    log,
  );

/** With this file of deploy/proxy/. It listens on a free port instead of `address`, with these servers instead of its own. */
async function start(
  file: string,
  address: string,
  servers: readonly string[],
  answers: (port: number) => Promise<boolean>,
  log?: string,
): Promise<Haproxy> {
  const text = await readFile(join("deploy/proxy", file), "utf8");
  const port = await findFreePort();
  const others = text.split("\n").filter((line) => !line.startsWith("  server "));
  const config = others
    .join("\n")
    .replace(address, `127.0.0.1:${port}`)
    .concat(servers.map((server, at) => `  server server-${at + 1} ${server}\n`).join(""));
  const folder = await mkdtemp(join(tmpdir(), "haproxy-"));
  await writeFile(join(folder, "haproxy.cfg"), config);
  const program = await Program.start({
    command: [HAPROXY, "-db", "-f", join(folder, "haproxy.cfg")],
    ...(log !== undefined && { log }),
    isReady: () => answers(port),
  });
  return {
    ...{ port, program },
    async stop() {
      await program.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** `OPTIONS /primary`. Source: Patroni docs, "Patroni REST API". */
async function startHealth(url: string): Promise<{ readonly port: number; stop(): void }> {
  const isPrimary = () =>
    withClient(url, async (client) => {
      const { rows } = await client.query("select not pg_is_in_recovery() as is");
      return rows[0].is as boolean;
    }).catch(() => false);
  const server = createServer(async (_, response) => response.writeHead((await isPrimary()) ? 200 : 503).end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { port, stop: () => server.close() };
}

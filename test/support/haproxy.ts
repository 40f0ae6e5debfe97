import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";

const HAPROXY = "/usr/sbin/haproxy";

export const hasHaproxy = existsSync(HAPROXY);
if (!hasHaproxy) console.warn(`skipped: a failover behind HAProxy, because ${HAPROXY} is not installed`);

export type Haproxy = { readonly port: number; stop(): Promise<void> };

/** HAProxy with the configuration of docs/deployment.md in front of two servers, whose health is answered as Patroni does. */
export async function startHaproxy(urls: readonly [string, string]): Promise<Haproxy> {
  const [, text] = /^```haproxy\n([\s\S]*?)^```$/m.exec(await readFile("docs/deployment.md", "utf8"))!;
  const health = await Promise.all(urls.map(startHealth));
  const port = await findFreePort();
  const server = (at: 0 | 1) => `127.0.0.1:${new URL(urls[at]).port} check port ${health[at]!.port}`;
  const config = text!
    .replace("127.0.0.1:5000", `127.0.0.1:${port}`)
    .replace("10.0.0.1:5432 check port 8008", server(0))
    .replace("10.0.0.2:5432 check port 8008", server(1));
  const folder = await mkdtemp(join(tmpdir(), "haproxy-"));
  await writeFile(join(folder, "haproxy.cfg"), config);
  const child = spawn(HAPROXY, ["-db", "-f", join(folder, "haproxy.cfg")], { stdio: "ignore" });
  // It accepts connections before it knows which server is the primary.
  const answers = () =>
    withClient(Object.assign(new URL(urls[0]), { port: String(port) }).href, (client) => client.query("select")).then(
      () => true,
      () => false,
    );
  await vi.waitUntil(answers, { timeout: 120_000, interval: 100 });
  return {
    port,
    async stop() {
      child.kill("SIGKILL");
      for (const { stop } of health) stop();
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

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { nodeStart } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { openGraphQL, openRaw, type RawSocket } from "../support/raw-socket.ts";
import { POLL } from "../support/until.ts";

const ATTACKER = "127.0.0.2";
const OTHER = "127.0.0.3";
/** So many that none reaches wsMaxSubscriptions. */
const SOCKETS = 10;

const fields = Array.from({ length: 190 }, (_, i) => `a${i}: title`).join(" ");
const subscribe = (n: number) => ({
  id: String(n),
  type: "subscribe",
  payload: { query: `subscription S${n} { onArticleCreated { ${fields} } }` },
});

test("when the heap is nearly full, the connections of the largest network are closed, and others are served", async () => {
  const folder = mkdtempSync(join(tmpdir(), "content-service-heap-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const command = nodeStart({
    dataDir: join(folder, "data"),
    settings: {
      NODE_OPTIONS: "--max-old-space-size=192",
      DATABASE_URL: database.url,
      JWT_SECRET: "a secret of the test, long enough for HS256",
      METRICS: "on",
      // No estimate of what clients hold then keeps them from filling the heap.
      CLIENT_MEMORY: "0",
    },
  });
  await command.ready();
  const { url } = command;
  const other = await openGraphQL(url, { localAddress: OTHER });
  other.send({ id: "1", type: "subscribe", payload: { query: "subscription { onArticleCreated { id } }" } });

  // The second time shows that the memory was free again.
  for (const times of [1, 2]) {
    const attackers: RawSocket[] = [];
    while (attackers.length < SOCKETS) attackers.push(await openGraphQL(url, { localAddress: ATTACKER }));
    for (let n = 0; !attackers.some(({ ended }) => ended); n++) {
      attackers[n % SOCKETS]!.send(subscribe(n));
      expect(await answerTo(url, "/live"), command.stderr).toMatch(/^HTTP\/1.1 200 /);
    }
    await expect.poll(() => attackers.every(({ ended }) => ended), POLL).toBe(true);
    expect(await answerTo(url, "/metrics")).toContain(`content_service_limits_hit_total{limit="HEAP"} ${times}\n`);
    const ended = () => command.logged.filter(({ msg }) => /^the heap is nearly full/.test(msg));
    const line = expect.objectContaining({ network: ATTACKER, bytes: expect.any(Number) });
    await expect.poll(ended, POLL).toEqual(Array.from({ length: times }, () => line));
  }
  await database.owner.query("insert into articles (title, content, author_id) values ('Still here', 'Text', 1)");
  await expect.poll(() => other.messages().at(-1), POLL).toMatchObject({ type: "next", id: "1" });
});

/** The whole response to a client of the other network. */
async function answerTo(url: string, path: string): Promise<string> {
  const raw = await openRaw(url, OTHER);
  raw.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
  await expect.poll(() => raw.ended, { ...POLL, interval: 1 }).toBe(true);
  return raw.text;
}

import { createServer, connect as dial, type Socket } from "node:net";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { type IdentityChange, Notifications } from "../../db/follow/notifications.ts";
import { createTestDatabase } from "../support/database.ts";

/** A proxy to the database that can stop passing data without closing the connections. */
async function startWay(url: string) {
  const sockets: Socket[] = [];
  const server = createServer((client) => {
    const { hostname, port } = new URL(url);
    const database = dial(Number(port), hostname);
    client.pipe(database).pipe(client);
    sockets.push(client, database);
    for (const socket of [client, database]) socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const way = new URL(url);
  way.port = String((server.address() as { port: number }).port);
  const cut = () => {
    for (const socket of sockets) socket.unpipe().pause();
  };
  return { url: way.href, cut };
}

test("a database that has disappeared without closing the connection is noticed within seconds and listened to again", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const way = await startWay(database.url);
  // The test advances the clock.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const errors: Error[] = [];
  const onError = (error: Error) => errors.push(error);
  const pool = new pg.Pool({ connectionString: way.url, max: 1, connectionTimeoutMillis: 10_000 });
  pool.on("connect", (connected) => connected.on("error", onError));
  onTestFinished(() => pool.end());
  const feed = new Notifications({ pool, onError });
  const changes: IdentityChange[] = [];
  feed.onIdentityChange((change) => changes.push(change));
  await feed.start();
  onTestFinished(() => feed.close());

  const disable = () => database.owner.query("update auth_private.accounts set disabled_at = now() where user_id = 1");
  await disable();
  await expect.poll(() => changes).toEqual([{ user: "1" }]);
  way.cut();
  await disable();
  await vi.advanceTimersByTimeAsync(10_000);
  await expect.poll(() => changes).toEqual([{ user: "1" }, "lost", "back"]);
  expect(errors.map(({ message }) => message)).toContain("the database does not respond");
  await disable();
  await expect.poll(() => changes.at(-1)).toEqual({ user: "1" });
});

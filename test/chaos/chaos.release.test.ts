import { expect, test } from "vitest";
import { createTestDatabase } from "../support/database.ts";
import { runChaos } from "./chaos.ts";

test("subscribers get every change once and in order, although the service is killed and its connections are cut", async () => {
  const database = await createTestDatabase();
  const report = await runChaos({
    url: () => database.url,
    actions: ["sockets", "replication", "service", "sockets"],
    kinds: ["table", "graphql", "channel"],
    writers: 2,
    pause: 5,
    rows: 20,
  }).finally(() => database.drop());
  expect(report.written).toBeGreaterThanOrEqual(100);
  expect(report.isOneOrder).toBe(true);
  for (const each of report.subscribers) expect(each).toMatchObject({ lost: 0, outOfOrder: 0, gaps: 0 });
  // What a channel has received since the last position that it was sent arrives again.
  const streams = report.subscribers.filter(({ kind }) => kind !== "channel");
  expect(streams.map(({ duplicates }) => duplicates)).toEqual(streams.map(() => 0));
});

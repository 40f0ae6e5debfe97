import { expect, test, vi } from "vitest";
import { KeyUses } from "../../identity/keys.ts";
import { createTestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";
import { makeKey } from "./support.ts";

test("the use of keys is stored together, once a minute, and again after a failure", async () => {
  vi.useFakeTimers();
  const written: (readonly string[])[] = [];
  const errors: unknown[] = [];
  let isBroken = false;
  const uses = new KeyUses({
    async write(ids) {
      if (isBroken) throw new Error("no database");
      written.push(ids);
    },
    onError: (error) => errors.push(error),
  });
  for (let i = 0; i < 1000; i++) uses.add(String(i % 2));
  await vi.advanceTimersByTimeAsync(59_000);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(written).toEqual([["0", "1"]]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(written).toHaveLength(1);
  isBroken = true;
  uses.add("2");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(errors).toHaveLength(1);
  isBroken = false;
  await uses.close();
  expect(written).toEqual([["0", "1"], ["2"]]);
  vi.useRealTimers();
});

test("the last uses are stored when the service stops", async () => {
  const database = await createTestDatabase();
  // The service stops without its database.
  const service = await startTestService({}, { ...database, drop: async () => {} });
  const key = await makeKey(service, 1);
  await makeKey(service, 2);
  const lastUses = async () =>
    (await database.owner.query("select user_id::int, last_used_at is not null as used from auth_private.api_keys"))
      .rows;
  expect((await fetch(`${service.url}/users/1`, { headers: { "x-api-key": key } })).status).toBe(200);
  expect(await lastUses()).toEqual([
    { user_id: 1, used: false },
    { user_id: 2, used: false },
  ]);
  await service.stop();
  expect((await lastUses()).filter(({ used }) => used)).toEqual([{ user_id: 1, used: true }]);
  await database.drop();
});

import { createClient } from "@supabase/supabase-js";
import jwt from "jsonwebtoken";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { followStream } from "../support/event-stream.ts";
import { expectSharedLimit, hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { startTrackit, type Trackit } from "./trackit.ts";

const PUBLICATION = `
  alter role trackit_api replication;
  create publication content_changes for table plans with (publish_via_partition_root, publish_generated_columns = stored)`;

describe.runIf(hasRedis)("two instances with MIGRATE=off and the same REDIS_URL", () => {
  let redis: TestRedis;
  let first: Trackit;
  let second: TestService;
  beforeAll(async () => {
    redis = await startRedis();
    const settings = { REDIS_URL: redis.url, RATE_LIMIT: "100", TRUST_PROXY: "loopback" };
    first = await startTrackit(settings, undefined, PUBLICATION);
    const login = { DATABASE_URL: first.loginUrl, DB_ANON_ROLE: first.role("anon"), JWT_SECRET: first.secret };
    const environment = { ...settings, ...login, MIGRATE: "off", API_KEY_REQUIRED: "off" };
    second = await startTestService(environment, first.database);
  });
  afterAll(async () => {
    await second?.service.stop();
    await first?.stop();
    await redis?.kill();
  });

  const sql = async (text: string) => (await first.database.owner.query(text)).rows;

  test("read the write-ahead log over one replication slot, and subscribers of both get the changes", async () => {
    const all = [first, second].map(({ url }) => followStream(() => `${url}/rest/v1/plans?select=title`, {}));
    for (const { count } of all) await expect.poll(() => count("snapshot"), POLL).toBe(1);
    await sql("insert into plans (code, title, price_cents) values ('new', 'New', 1), ('newer', 'Newer', 1)");
    for (const { titles } of all) await expect.poll(titles, POLL).toEqual(["New", "Newer"]);
    const slots = await sql("select slot_name from pg_replication_slots where database = current_database()");
    expect(slots).toEqual([{ slot_name: expect.stringMatching(/^content_\d+_s_/) }]);
  });

  test("count RATE_LIMIT together", async () => {
    await expectSharedLimit(redis, first, second);
  });

  test("share the broadcasts of channels", async () => {
    const [sender, receiver] = [first, second].map(({ url }) => {
      const client = createClient(url, jwt.sign({ role: first.role("anon") }, first.secret), { realtime: POLL });
      onTestFinished(() => void client.realtime.disconnect());
      return client.channel("news", { config: { broadcast: { ack: true } } });
    });
    const received: unknown[] = [];
    receiver!.on("broadcast", { event: "*" }, ({ payload }) => received.push(payload));
    for (const channel of [sender!, receiver!])
      await new Promise<void>((resolve) => channel.subscribe((state) => state === "SUBSCRIBED" && resolve()));
    expect(await sender!.send({ type: "broadcast", event: "x", payload: { n: 1 } })).toBe("ok");
    await expect.poll(() => received, POLL).toEqual([{ n: 1 }]);
  });
});

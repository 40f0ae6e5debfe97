import pino from "pino";
import { expect, onTestFinished, test } from "vitest";
import { startTestService } from "../support/service.ts";

test("a second instance on a database says at start and in /health what is not shared, and only to operators", async () => {
  const first = await startTestService();
  onTestFinished(() => first.stop());
  expect(await first.health()).not.toHaveProperty("details.instances");

  const lines: { level: number; msg: string }[] = [];
  const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const second = await startTestService({}, first.database, log);
  onTestFinished(() => second.service.stop());
  const sentence = expect.stringMatching(/^another instance serves this database: .*RATE_LIMIT/);
  expect(lines.filter(({ msg }) => msg.includes("instance"))).toEqual([
    expect.objectContaining({ level: 40, msg: sentence }),
  ]);
  expect(await second.health()).toMatchObject({ status: "ok", details: { instances: sentence } });
  expect(await (await fetch(`${second.url}/health`)).json()).toEqual({ status: "ok" });
  await expect
    .poll(() => first.health(), { timeout: 120_000, interval: 500 })
    .toMatchObject({ details: { instances: sentence } });
}, 90_000);

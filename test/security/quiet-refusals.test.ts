import { pino } from "pino";
import { expect, onTestFinished, test } from "vitest";
import { Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { problem } from "../../problems/problem.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";

async function start() {
  const lines: any[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const { url, stop } = await startTestService({ METRICS: "on", TRUST_PROXY: "loopback" }, undefined, log);
  onTestFinished(stop);
  const ask = async (path: string, address: string) =>
    (await fetch(`${url}${path}`, { headers: { "x-forwarded-for": address } })).status;
  const counted = async (status: number) => {
    const text = await (await fetch(`${url}/metrics`)).text();
    const series = text.matchAll(
      new RegExp(`^content_service_http_requests_total\\{.*status="${status}"\\} (\\d+)`, "gm"),
    );
    return [...series].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const requests = () => lines.filter(({ msg }) => msg === "request");
  return { ask, counted, requests };
}

test("of many refusals of one client with one reason, the log has a few lines with their number, and the metrics have all", async () => {
  const { ask, counted, requests } = await start();
  expect(await ask("/nothing", "203.0.113.2")).toBe(404);
  for (let round = 0; round < 4; round++)
    await Promise.all(Array.from({ length: 25 }, () => ask("/nothing", "203.0.113.1")));
  expect(await ask("/rest/v1/articles", "203.0.113.1")).toBe(401);
  const logged = () => requests().reduce((sum, { more = 0 }) => sum + 1 + more, 0);
  await expect.poll(logged, { timeout: 10_000 }).toBe(102);
  expect(requests().length).toBeLessThan(60);
  expect(requests().filter(({ more }) => more > 0).length).toBeGreaterThan(0);
  expect(requests().map(({ status }) => status)).toContain(401);
  expect(await counted(404)).toBe(101);
  expect(await counted(401)).toBe(1);
});

test("a token that is not valid is refused without a stack, also by the library that reads it", () => {
  const tokens = new Tokens({
    secret: JWT_SECRET,
    privateKey: "",
    audience: "",
    anonymousRole: "anon",
    accessSeconds: 60,
  });
  const captured: unknown[] = [];
  const { prepareStackTrace } = Error;
  Error.prepareStackTrace = (error, frames) => void (frames.length > 0 && captured.push(error));
  onTestFinished(() => {
    Error.prepareStackTrace = prepareStackTrace;
  });
  const refusals = ["eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "no token", `${tokens.issueKey("anon")}x`].map((token) => {
    try {
      return tokens.verify(token);
    } catch (error) {
      return [error instanceof TokenError, (error as Error).stack];
    }
  });
  expect(refusals).toEqual([
    [true, undefined],
    [true, undefined],
    [true, undefined],
  ]);
  expect(captured).toEqual([]);
});

test("a problem of a caller has no stack, that of the service has one", () => {
  const limit = Error.stackTraceLimit;
  expect(problem("no such path").stack).toBe("Error: there is no resource at this path");
  expect(problem("internal error").stack).toMatch(/\n {4}at /);
  expect(Error.stackTraceLimit).toBe(limit);
});

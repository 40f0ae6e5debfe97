import http from "node:http";
import { Writable } from "node:stream";
import fc from "fast-check";
import pino from "pino";
import { afterAll, afterEach, expect, test } from "vitest";
import { CODES, REST_CODES } from "../../../problems/reasons.ts";
import { useResources } from "../../support/resource-client.ts";
import { reads, writes } from "./fuzz-users-requests.ts";
import { type PlainReply, type PlainRequest, sendPlain } from "./plain-http.ts";

const lines: string[] = [];
const log = pino(
  { level: "warn" },
  new Writable({
    write(line, _, done) {
      lines.push(String(line));
      done();
    },
  }),
);
const { body, service } = useResources({ TASK_CONCURRENCY: "2" }, "", log);

const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
afterAll(() => agent.destroy());

// The service answers as if nothing had been.
afterEach(async () => {
  expect(lines).toEqual([]);
  expect(await body("/users/3?fields=id")).toEqual({ id: 3 });
});

const KNOWN: ReadonlySet<string> = new Set([...CODES, ...REST_CODES]);
const OUR_SQL = /json_agg|row_to_json|set_config|with written|pg_catalog|users_\w+_key|\.ts:\d/;

/** What is wrong with an answer; null when nothing is. */
function faultOf({ method }: PlainRequest, { status, headers, text }: PlainReply): string | null {
  if (headers["x-request-id"] === undefined) return "no request id";
  if (method === "HEAD" || status === 304) return text === "" ? null : "a body";
  if (status >= 200 && status < 300) return null;
  if (status < 400 || status > 499) return `status ${status}`;
  if (headers["content-type"] !== "application/json; charset=utf-8") return `type ${headers["content-type"]}`;
  const { error, detail, message } = JSON.parse(text);
  const received = typeof error === "string" ? { code: error, message } : (error ?? detail);
  if (!KNOWN.has(received.code)) return `code ${received.code}`;
  return typeof received.message === "string" && received.message !== "" && !OUR_SQL.test(text) ? null : text;
}

test.each([
  ["reads and deletes", reads, 600],
  ["writes", writes, 600],
])(
  "random %s get a success or a client error",
  async (_, requests, count) => {
    const statuses = new Map<number, number>();
    const holds = async (request: PlainRequest) => {
      const reply = await sendPlain(service().url, request, agent);
      statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
      expect(faultOf(request, reply)).toBe(null);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(requests, { minLength: 10, maxLength: 10 }), async (all) => {
        await Promise.all(all.map(holds));
      }),
      { numRuns: count / 10 },
    );
    // Without enough successes the samples would prove little.
    expect((statuses.get(200) ?? 0) + (statuses.get(201) ?? 0)).toBeGreaterThan(count / 20);
  },
  60_000,
);

import { readFileSync } from "node:fs";
import http from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRaw } from "../../support/raw-socket.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";
import { samples } from "../../support/samples.ts";
import { casts, type FuzzRequest, filters, logic, reads, texts, writes } from "./fuzz-requests.ts";

/** All requests are rolled back except those with tx=commit. */
const { failure, rest, rows, service, sql } = useRest(
  { DB_SCHEMAS: "fuzz, public", DB_TX_END: "rollback-allow-override", GRAPHQL_DOCUMENTS: "none" },
  readFileSync(new URL("fuzz.sql", import.meta.url), "utf8"),
);

// The service still works after all tests.
afterAll(async () => {
  expect(await rows("rpc/add?a=1&b=2")).toBe(3);
});

/** The number of concurrent requests; fast-check shrinks to the one that fails. */
const AT_ONCE = 20;
const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });
afterAll(() => agent.destroy());

/** The headers of the user ada. */
let credentials: Readonly<Record<string, string>>;
beforeAll(() => {
  const { service: started, token } = service();
  credentials = { apikey: started.tokens.issueKey("anon"), authorization: `Bearer ${token("ada")}` };
});

type Reply = { readonly status: number; readonly type: string; readonly text: string };
/** Ids of the successful requests. */
const successful = new Set<string>();
let sent = 0;

/** Sends the path unchanged; `fetch` would normalize it. */
async function send({ method, path, headers, body }: FuzzRequest): Promise<Reply> {
  const id = `request-${++sent}`;
  const request = http.request(`${service().url}/`, {
    agent,
    method,
    path: `/rest/v1/${path}`,
    headers: { ...credentials, "x-request-id": id, ...headers },
  });
  request.end(body ?? undefined);
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on("response", resolve).on("error", reject);
  });
  const text = Buffer.concat(await response.toArray()).toString();
  const status = response.statusCode!;
  if (status < 300) successful.add(id);
  return { status, type: response.headers["content-type"] ?? "", text };
}

/** The messages of syntax errors in tsquery, tsvector and jsonpath values; any other syntax error is in the generated SQL. */
const OF_A_VALUE =
  /^(syntax error in ts|there is no escaped character|wrong position info in ts|no operand in tsquery|.* of jsonpath input$)/s;
const OUR_SQL = /json_agg|set_config|with changed|content_service\.|postgres:/;

/** Describes what is wrong with the response; null if nothing is. */
function faultOf({ method }: FuzzRequest, { status, type, text }: Reply): string | null {
  if (status >= 200 && status < 300) return null;
  if (status !== 300 && (status < 400 || status > 499)) return `status ${status}`;
  if (method === "HEAD") return text === "" ? null : "a body";
  if (type !== "application/json; charset=utf-8") return `type ${type}`;
  const { code, message, ...others } = JSON.parse(text);
  if (!/^details,hint(,fields)?$/.test(Object.keys(others).join())) return `keys ${Object.keys(others)}`;
  if (typeof message !== "string" || message === "" || OUR_SQL.test(text)) return `message ${text}`;
  if (code === "42601" ? !OF_A_VALUE.test(message) : !/^(PGRST[1-3]\d\d|[0-9A-W][0-9A-Z]{4})$/.test(code))
    return `code ${code}: ${message}`;
  return null;
}

describe("an invalid value returns the SQLSTATE of Postgres", () => {
  test.each<[path: string, status: number, code: string, sent?: RestSent]>([
    ["things?id=eq.x", 400, "22P02"],
    ["things?id=eq.", 400, "22P02"],
    ["things?id=eq.99999999999", 400, "22003"],
    ["things?big=eq.9223372036854775808", 400, "22003"],
    ["things?loose=eq.1e400", 400, "22003"],
    ["things?id=eq.NaN", 400, "22P02"],
    ["things?flag=eq.perhaps", 400, "22P02"],
    ["things?mood=eq.angry", 400, "22P02"],
    ["things?uid=eq.123", 400, "22P02"],
    ["things?day=eq.2024-02-30", 400, "22008"],
    ["things?day=eq.someday", 400, "22007"],
    ["things?clock=eq.25:00", 400, "22008"],
    ["things?moment=eq.294277-01-01", 400, "22008"],
    ["things?span=eq.soon", 400, "22007"],
    ["things?tags=cs.{a", 400, "22P02"],
    ["things?numbers=eq.{{1},{2,3}}", 400, "22P02"],
    ["things?id=in.(1,x)", 400, "22P02"],
    ["things?levels=cs.[3,1)", 400, "22000"],
    ["things?levels=cs.x", 400, "22P02"],
    ["things?spot=eq.(1,2)", 400, "22P02"],
    ["things?facts=cs.{a}", 400, "22P02"],
    ["things?address=eq.10.0.0.0/99", 400, "22P02"],
    ["things?bits=eq.102", 400, "22P02"],
    ["things?name=match.[", 400, "2201B"],
    ["things?name=imatch.(a", 400, "2201B"],
    ["things?name=match.((a{1,255}){1,255}){1,255}", 400, "2201B"],
    ["things?name=like.t%5C", 400, "22025"],
    ["things?words=fts.a b", 400, "42601"],
    ["things?words=fts.%26", 400, "42601"],
    ["things?words=fts(0).a", 400, "PGRST100"],
    ["things?words=fts(klingon).a", 400, "42704"],
    ["things?name=is.true", 400, "42804"],
    ["things?id=like.1*", 404, "42883"],
    ["things?notes=eq.{}", 404, "42883"],
    ["things?name=ov.{a}", 404, "42883"],
    ["things?order=notes", 404, "42883"],
    ["things?select=name.sum()", 404, "42883"],
    ["things?select=flag::date", 400, "42846"],
    ["things?select=name::int", 400, "22P02"],
    ["things?select=name::regtype", 400, "42601"],
    ["things?select=name::regclass", 400, "42602"],
    ["things?select=big::int", 400, "22003"],
    ["things?select=name::nowhere", 400, "42704"],
    ["rpc/divide?a=1&b=0", 400, "22012"],
    ["rpc/add?a=1&b=2147483647", 400, "22003"],
    ["rpc/add?a=x", 400, "22P02"],
    ["rpc/same?a=1", 300, "PGRST203"],
    ["things", 400, "22P02", { body: { id: "x" } }],
    ["things", 400, "22P02", { body: { id: 1e300 } }],
    ["things", 400, "22003", { body: { id: 99999999999 } }],
    ["things", 400, "22001", { body: { id: 9, code: "too long" } }],
    ["things", 400, "22003", { body: { id: 9, exact: 1e9 } }],
    ["things", 400, "23514", { body: { id: 9, positive: 0 } }],
    ["things", 400, "428C9", { body: { id: 9, total: 1 } }],
    ["things", 400, "22P05", { body: '{"id": 9, "name": "\\u0000"}' }],
    ["things", 400, "22P05", { body: '{"id": 9, "facts": "\\u0000"}' }],
    ["things", 400, "22P02", { body: '{"id": 9, "name": "\\ud800"}' }],
    ["things", 400, "2200N", { body: { id: 9, doc: "<a>" } }],
    ["things", 409, "23505", { body: { id: 1 } }],
    ["things", 409, "23503", { body: { id: 9, place_id: 99 } }],
    ["things?on_conflict=name", 400, "42P10", { body: { id: 9, name: "x" }, prefer: "resolution=merge-duplicates" }],
    ["things", 400, "21000", { body: [{ id: 9 }, { id: 9 }], prefer: "resolution=merge-duplicates" }],
    ["rpc/spot_of", 400, "22P02", { body: { s: "x", m: "calm", j: {}, t: "now", r: "[1,2)", d: "ok" } }],
    ["rpc/text_body", 400, "22021", { body: "a\0b", headers: { "content-type": "text/plain" } }],
  ])("%s → %i %s", async (path, status, code, sent) => {
    expect(await failure(path, { as: "ada", ...sent })).toEqual([status, code]);
  });
});

describe("an invalid URL", () => {
  test.each([
    ["a space", "things?name=eq.a b"],
    ["a byte of Latin-1", "things?name=eq.\xe9"],
    ["UTF-8 as it is", "things?name=eq.\xc3\xa9"],
    ["NUL", "things?name=eq.\0"],
    ["a fragment", "things?name=eq.a#b"],
  ])("with %s is 400", async (_what, path) => {
    const raw = await openRaw(service().url);
    raw.write(Buffer.from(`GET /rest/v1/${path} HTTP/1.1\r\nHost: x\r\n\r\n`, "latin1"));
    expect((await raw.head()).status).toBeOneOf([400, 401]);
  });

  test.each([
    "//",
    "/things/",
    "/things/1",
    "/things/1/x",
    "/rpc/",
    "/rpc/add/1",
    "/./things",
    "/../things",
    "/%2e%2e/things",
    "/rpc%2fadd",
  ])("/rest/v1%s is 404", async (path) => {
    const request: FuzzRequest = { method: "GET", path: path.slice(1), headers: {}, body: null };
    expect((await send(request)).status).toBe(404);
  });
});

describe("a generated request succeeds, or fails with a 4xx that explains the client's error", () => {
  test.each<[what: string, requests: fc.Arbitrary<FuzzRequest>, count: number]>([
    ["any text in any part of the URL", texts, 400],
    ["valid requests with words and characters replaced, deleted, repeated or cut off", reads, 400],
    ["all operators on all types with all kinds of values", filters, 300],
    ["all operators on all types in logic trees", logic, 100],
    ["all casts between types, with aggregates", casts, 300],
    ["writes and calls, with changes in URL, headers and body", writes, 500],
  ])(
    "for %s",
    async (_what, request, count) => {
      const several = fc.array(request, { minLength: AT_ONCE, maxLength: AT_ONCE });
      const property = fc.asyncProperty(several, async (requests) => {
        const faults = await Promise.all(requests.map(async (each) => faultOf(each, await send(each))));
        expect(faults.filter((fault) => fault !== null)).toEqual([]);
      });
      await fc.assert(property, { seed: 20_261_120, numRuns: samples(count / AT_ONCE) });
    },
    60_000,
  );

  test("and writes rows only if it succeeds", async () => {
    const writers = await sql("select distinct request from fuzz.writers");
    expect(writers.length).toBeGreaterThanOrEqual(samples(6));
    expect(writers.filter(({ request }) => !successful.has(request))).toEqual([]);
  });
});

test("a misspelt parameter is named, with the one that was probably meant", async () => {
  const { json } = await rest("things?limt=3");
  expect(json).toMatchObject({
    code: "PGRST100",
    hint: '"limt" was read as a filter. Perhaps you meant the parameter limit, or limt=eq.3',
  });
});

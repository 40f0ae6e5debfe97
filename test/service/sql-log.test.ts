import pino from "pino";
import { beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

type Line = { readonly msg: string; readonly requestId?: string; readonly role?: string; readonly sql?: string[] };

const SECRET = "a-value-of-the-caller";
const lines: string[] = [];
const log = pino({ level: "trace" }, { write: (line: string) => lines.push(line) });

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ API_KEY_REQUIRED: "off" }, undefined, log);
  return () => service.stop();
});

/** The lines with the SQL of this request. */
const sqlOf = (requestId: string): Line[] =>
  lines.map((line): Line => JSON.parse(line)).filter((line) => line.msg === "sql" && line.requestId === requestId);

const graphql = (query: string) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ query }),
});

test.each([
  ["a table", "rest", `/rest/v1/articles?select=id&title=eq.${SECRET}`, {}, /articles/],
  ["a resource", "resource", `/articles?tag=${SECRET}`, {}, /articles/],
  [
    "compiled GraphQL",
    "compiled",
    "/graphql",
    graphql(`{ articles(filter: { title: { equalTo: "${SECRET}" } }) { edges { node { id } } } }`),
    /articles/,
  ],
  [
    "GraphQL of PostGraphile",
    "planned",
    "/graphql",
    graphql(`mutation { createComment(articleId: 4711, content: "${SECRET}") { id } }`),
    /comment/,
  ],
])(
  "LOG_LEVEL=trace prints the SQL of %s with the id of the request, and without values",
  async (...[, id, path, init, sql]) => {
    const headers = {
      ...(init as RequestInit).headers,
      "x-request-id": id,
      authorization: `Bearer ${service.token("ada")}`,
    };
    const response = await fetch(service.url + path, { ...init, headers });
    expect(response.status).toBe(200);
    expect(await response.text()).not.toContain("select ");
    const found = sqlOf(id);
    expect(found.length).toBeGreaterThan(0);
    for (const { role } of found) expect(role).toBe("authenticated");
    expect(found.flatMap((line) => line.sql).join("\n")).toMatch(sql);
    expect(lines.join("\n")).not.toContain(SECRET);
  },
);

test("other levels print no SQL, also after a change of the level", async () => {
  const read = (id: string) => fetch(`${service.url}/rest/v1/articles?limit=1`, { headers: { "x-request-id": id } });
  log.level = "debug";
  await read("quiet");
  log.level = "trace";
  await read("loud");
  expect([sqlOf("quiet").length, sqlOf("loud").length]).toEqual([0, 1]);
});

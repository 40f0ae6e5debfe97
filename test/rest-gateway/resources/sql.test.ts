import type { IncomingHttpHeaders } from "node:http";
import { expect, test } from "vitest";
import { Lifecycle } from "../../../rest-gateway/conventions/version.ts";
import { PreferenceParser } from "../../../rest-gateway/resources/parse/headers.ts";
import { parseText } from "../../../rest-gateway/resources/parse/request.ts";
import { Statements } from "../../../rest-gateway/resources/runner.ts";
import { DESCRIPTIONS } from "../../support/demo.ts";
import { useOwnResources } from "../../support/own-resources.ts";

const { describe: lookUp } = useOwnResources("", []);

type Sent = { readonly headers?: IncomingHttpHeaders; readonly body?: string };

const REQUESTS: readonly (readonly [request: string, sent?: Sent])[] = [
  ["GET /articles/7/comments/8"],
  ["GET /articles?fields=title,author.name&status=DRAFT&tag=sql&created_after=2026-01-01&keyword=plan"],
  ["POST /articles?fields=id", { body: '[{"title":"A","content":"B"},{"title":"C","content":"D","tags":["sql"]}]' }],
  ["PATCH /users/7?fields=id,name", { body: '{"name":"Ada"}', headers: { "if-match": '"v1-734"' } }],
  ["DELETE /users/7?cascade=true"],
  ["POST /articles/7/publish?fields=status"],
];

test("the SQL of typical requests is in sql.md, to be read in review", async () => {
  const options = {
    resources: lookUp(...DESCRIPTIONS),
    preferences: new PreferenceParser([]),
    lifecycle: new Lifecycle({ status: "supported", sunset: null, guide: "" }),
    limits: { bodyLimit: 1000, jsonMaxDepth: 10, apiMaxRecords: 10, passwords: null },
  };
  const described = (request: string, { headers = {}, body }: Sent = {}) => {
    const [method = "", url = ""] = request.split(" ");
    const sent = { "content-type": "application/json", ...headers };
    const given = { method, url, headers: sent, body: Buffer.from(body ?? ""), isTask: false };
    const statements = new Statements().of(parseText(given, options).request).map(({ text, values }) => {
      const list = values.map((value, i) => `$${i + 1} = ${value}`);
      return `${text};${list.length > 0 ? `\n-- ${list.join(", ")}` : ""}`;
    });
    const head = [request, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
    const http = [...head, ...(body === undefined ? [] : ["", body])].join("\n");
    return `\`\`\`http\n${http}\n\`\`\`\n\`\`\`sql\n${statements.join("\n\n")}\n\`\`\``;
  };
  const sections = REQUESTS.map(([request, sent]) => described(request, sent));
  const text = ["# SQL of typical requests for resources", "Written by `sql.test.ts`.", ...sections].join("\n\n");
  await expect(`${text}\n`).toMatchFileSnapshot("sql.md");
});

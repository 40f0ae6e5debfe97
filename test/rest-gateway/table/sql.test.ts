import { expect, test } from "vitest";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { Parameter, Written } from "../../../db/sql.ts";
import { type PlanningOptions, planShape } from "../../../rest-gateway/table/planner.ts";
import type { TableRequest } from "../../../rest-gateway/table/request.ts";
import { useCatalog } from "../../support/catalog.ts";
import { LIBRARY } from "./library.ts";
import { parse } from "./parse/parse.ts";

const library = useCatalog(LIBRARY, { schemas: ["library"], extraSearchPath: ["public"] });

const OPTIONS: PlanningOptions = {
  maxRows: 1000,
  dbAggregates: true,
  restMaxEmbeds: 500,
  restMaxEmbedFilters: 20,
  dbPlan: false,
  safeUpdate: true,
  maxBytes: null,
  dbSchemas: ["library"],
  dbExtraSearchPath: ["public"],
  dbTxEnd: "commit",
};

type Sent = { readonly method?: string; readonly headers?: Readonly<Record<string, string>>; readonly body?: string };

const REQUESTS: readonly (readonly [url: string, sent?: Sent])[] = [
  ["books?select=id,price::int&or=(pages.gt.300,and(shelf.eq.science,not.price.lt.10))&title=like(any).{*Engine,*Man}"],
  ["books?select=id,town:facts->print->>city&facts->>isbn=eq.B-2&order=facts->sizes->0"],
  ["books?select=id&shelf=eq.fiction&limit=10", { headers: { prefer: "count=estimated" } }],
  ["books?select=id,title", { headers: { accept: "text/csv" } }],
  ["books?select=shelf,count(),pages.avg()&order=count.desc"],
  ["authors?select=name,books!author_id(title)&books.pages=gt.100&books.order=title&books.limit=3"],
  ["books?select=id,genres!inner()&genres.name=eq.Novel"],
  ["books?select=id,...covers(colour)&order=covers(colour)"],
  [
    "genres?columns=id,name",
    { method: "POST", body: '[{"id":4}]', headers: { prefer: "missing=default, return=representation" } },
  ],
  [
    "books?id=eq.5&select=id,covers(colour)",
    { method: "PATCH", body: '{"pages":300}', headers: { prefer: "return=representation" } },
  ],
  ["book_genres?weight=lt.3", { method: "DELETE" }],
  ["rpc/books_by?select=id&limit=1", { method: "POST", body: '{"writer":2}', headers: { prefer: "count=exact" } }],
];

test("typical requests have the SQL of the snapshot, which is read in review", async () => {
  const { catalog } = library();
  const sections = REQUESTS.map(([url, sent = {}]) => described(url, sent, catalog));
  const text = ["# SQL of typical requests", "Written by `sql.test.ts`.", ...sections].join("\n\n");
  await expect(`${text}\n`).toMatchFileSnapshot("sql.md");
});

function described(url: string, sent: Sent, catalog: Catalog): string {
  const { method = "GET", headers = {}, body } = sent;
  const request = parse(url, sent);
  const { main, estimate } = planShape(request, catalog, OPTIONS).query;
  const head = [`${method} /${url}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)];
  const http = [...head, ...(body === undefined ? [] : ["", body])].join("\n");
  const statements = [main, ...(estimate ? [estimate] : [])].map((written) => statement(written, request));
  return `\`\`\`http\n${http}\n\`\`\`\n\`\`\`sql\n${statements.join("\n\n")}\n\`\`\``;
}

function statement({ text, parameters }: Written, request: TableRequest): string {
  const values = parameters.map((parameter, i) => `$${i + 1} = ${shown(parameter, request)}`);
  return `${text};${values.length > 0 ? `\n-- ${values.join(", ")}` : ""}`;
}

function shown(parameter: Parameter, { values }: TableRequest): string {
  if (parameter.kind === "body") return "the body";
  if (parameter.kind === "constant") return JSON.stringify(parameter.text);
  const indexes = parameter.kind === "value" ? [parameter.index] : parameter.indexes;
  return indexes.map((index) => JSON.stringify(values[index])).join(" and ");
}

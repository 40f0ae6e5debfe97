import { exposureOf } from "../../db/catalog/exposure.ts";
import { type Html, html } from "../../gate/pages/html.ts";
import { codeBlock } from "../../pages/code.ts";
import type { Core } from "../../service/part.ts";

type Table = { readonly schema: string; readonly name: string };

/** What the first requests of a reader use. */
export type FirstRequests = {
  /** A table that anonymous callers may read; null if there is none. */
  readonly table: Table | null;
  /** Public; null if no key is needed. */
  readonly anonKey: string | null;
  /** An operation that runs on the GraphQL schema; null without GraphQL, and without a part that has one. */
  readonly query: string | null;
};

/** What a first request may use: the readable table with the most relationships. */
export async function readFirstRequests({ catalog, graphql, settings, anonKey, parts }: Core): Promise<FirstRequests> {
  const { tables } = exposureOf(catalog.current, settings.current.dbAnonRole);
  const [found] = tables
    .filter(({ table, columns }) => table.kind === "table" && columns.select === "all")
    .toSorted((a, b) => b.table.relationships.length - a.table.relationships.length);
  const table = found === undefined ? null : { schema: found.table.schema, name: found.table.name };
  const schema = (await graphql?.schema()) ?? null;
  const examples = schema && (await parts.find(({ examples }) => examples)?.examples?.(schema));
  return { table, anonKey, query: examples?.[0]?.query ?? null };
}

/** Requests to copy, which work as they are. */
export function firstRequestsOf(url: string, { table, anonKey, query }: FirstRequests): Html {
  const examples: Example[] = [
    ...(table === null ? [] : ofTable(url, table, anonKey)),
    ...(query === null ? [] : [{ title: "GraphQL", about: "In a browser or in Node:", code: graphqlCode(url, query) }]),
    ...(table === null ? [] : [changesOf(url, table, anonKey)]),
  ];
  if (examples.length === 0) return html`<p>Grant a table to the anonymous role, and requests to copy appear here.</p>`;
  return html`<div class="examples">${examples.map(
    ({ title, about, code, language = "js" }) =>
      html`<section><h3>${title}</h3><p class="muted">${about}</p>\n${codeBlock(code, language)}</section>\n`,
  )}</div>`;
}

type Example = { readonly title: string; readonly about: string; readonly code: string; readonly language?: string };

function ofTable(url: string, { name }: Table, key: string | null): Example[] {
  const path = `${url}/rest/v1/${encodeURIComponent(name)}?limit=3`;
  const headers = key === null ? "" : `, { headers: { apikey } }`;
  return [
    {
      title: "A query",
      about: "In a terminal:",
      language: "sh",
      code: `curl "${path}"${key === null ? "" : ` \\\n  -H "apikey: ${key}"`}`,
    },
    {
      title: "Fetch",
      about: "In a browser or in Node:",
      code: `${key === null ? "" : `const apikey = "${key}";\n`}const response = await fetch("${path}"${headers});
console.log(await response.json());`,
    },
  ];
}

const changesOf = (url: string, { schema, name }: Table, key: string | null): Example => ({
  title: "Changes, as they happen",
  about: "With supabase-js:",
  code: `import { createClient } from "@supabase/supabase-js";

const client = createClient("${url}", "${key ?? "any"}");
client
  .channel("first")
  .on("postgres_changes", { event: "*", schema: "${schema}", table: "${name}" }, console.log)
  .subscribe();`,
});

const graphqlCode = (url: string, query: string) => `const query = \`${query.replace(/^#.*\n/gm, "").trim()}\`;
const response = await fetch("${url}/graphql", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ query }),
});
console.log(await response.json());`;

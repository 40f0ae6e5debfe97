import type { Table } from "../../db/catalog/catalog.ts";
import { exposureOf } from "../../db/catalog/exposure.ts";
import { type Html, html, type Value } from "../../gate/pages/html.ts";
import { records } from "../../gate/pages/table.ts";
import type { View } from "./console.ts";
import { allTables } from "./data-request.ts";
import { backToAll, drawing, linkTo, nameOf, SCHEMA } from "./diagram.ts";
import { countText, sizeText } from "./numbers.ts";
import { CONSOLE } from "./path.ts";
import { rightsOf } from "./rights.ts";
import { type TableOptions, tablePage } from "./schema-table.ts";
import type { TableSize } from "./storage.ts";

export type SchemaOptions = TableOptions & {
  /** Null while a table is locked. */
  sizes(): Promise<readonly TableSize[] | null>;
};

/** The most tables in a list, and roles beside them. */
const MAX_SHOWN = 200;
const MAX_ROLES = 8;

/** `/console/schema`: the tables, their relations and who may use them; with `?table=public.posts`, all about one of them. */
export const schemaView = (options: SchemaOptions): View => ({
  path: SCHEMA,
  name: "Schema",
  icon: "schema",
  script: "/assets/console-schema.js",
  render({ query }) {
    const name = query.get("table");
    const tables = allTables(options.catalog());
    const found = tables.find((table) => nameOf(table) === name) ?? null;
    if (name === null) return listPage((query.get("q") ?? "").slice(0, 63), tables, options);
    if (found !== null) return tablePage(found, tables, options);
    return html`<h1>Schema</h1><p class="alert" role="alert">There is no table “${name}” in the served schemas.</p>${backToAll}`;
  },
});

async function listPage(search: string, tables: readonly Table[], options: SchemaOptions): Promise<Html> {
  const matching = tables.filter((table) => nameOf(table).toLowerCase().includes(search.toLowerCase()));
  const shown = matching.slice(0, MAX_SHOWN);
  const sizes = await options.sizes();
  return html`
<h1>Schema</h1>
<form method="get" class="row" role="search">
<label for="q">Name contains</label><input id="q" name="q" value="${search}" maxlength="63"><button>Show</button>
</form>
${shown.length === 0 ? html`<p>${tables.length === 0 ? "The served schemas have no tables yet." : "No table has such a name."}</p>` : sectionsOf(shown, matching.length, sizes, options)}`;
}

function sectionsOf(
  shown: readonly Table[],
  count: number,
  sizes: readonly TableSize[] | null,
  options: SchemaOptions,
): Html {
  const more = count - shown.length;
  return html`
${drawing(shown)}
<h2>Tables</h2>
${sizes === null ? html`<p class="notice">The sizes cannot be read now, because a table is locked: reload the page.</p>` : null}
${records(
  ["Table", "Kind", "Columns", "Rows, estimated", "Size", "Indexes", "Row-level security"],
  shown.map((table) => tableRow(table, sizes)),
)}
${more > 0 ? html`<p class="muted">${more} more: search for a part of the name.</p>` : null}
<h2>Who may what</h2>
${matrix(shown, options)}`;
}

function tableRow(table: Table, sizes: readonly TableSize[] | null): readonly Value[] {
  const size = sizes?.find(({ schema, name }) => schema === table.schema && name === table.name);
  return [
    html`<a href="${linkTo(nameOf(table))}"><code>${nameOf(table)}</code></a>`,
    table.kind,
    table.columns.size,
    size?.rows == null ? "" : countText(size.rows),
    size ? sizeText(size.size) : "",
    size ? sizeText(size.indexSize) : "",
    securityOf(table),
  ];
}

function securityOf({ kind, rowSecurity: { isEnabled, policies } }: Table): Value {
  if (kind.includes("view")) return "that of its tables";
  if (!isEnabled) return html`<span class="warn">off</span>`;
  return policies.length === 1 ? "1 policy" : `${policies.length} policies`;
}

/** The roles of callers, with what each may use of these tables. */
function matrix(tables: readonly Table[], { catalog, roles }: SchemaOptions): Html {
  const shown = roles().slice(0, MAX_ROLES);
  if (shown.length === 0) return html`<p>The logins of the service may not become any role.</p>`;
  const exposures = shown.map((role) => ({
    role,
    byName: new Map(exposureOf(catalog(), role.name).tables.map((each) => [nameOf(each.table), each])),
  }));
  const more = roles().length - shown.length;
  return html`
<p class="muted">A command with a number is for that many columns only. Below it: the rows that policies allow.</p>
${records(
  ["Table", ...shown.map(({ name }) => name)],
  tables.map((table) => [
    html`<code>${nameOf(table)}</code>`,
    ...exposures.map(({ role, byName }) => rightsOf(byName.get(nameOf(table)) ?? null, role, catalog())),
  ]),
)}
${more > 0 ? html`<p class="muted">${more} more roles: <a href="${CONSOLE}/access">Access</a> shows each.</p>` : null}`;
}

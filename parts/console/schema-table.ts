import type { Catalog, Column, Relationship, Role, Table } from "../../db/catalog/catalog.ts";
import { withoutSmartTags } from "../../db/catalog/constraints.ts";
import { tableExposure } from "../../db/catalog/exposure.ts";
import { mayUseSchema } from "../../db/catalog/grants.ts";
import { type Html, html, type Value } from "../../gate/pages/html.ts";
import { records } from "../../gate/pages/table.ts";
import { backToAll, drawing, linkTo, nameOf } from "./diagram.ts";
import { countText, sizeText } from "./numbers.ts";
import { CONSOLE } from "./path.ts";
import { POLICY_CELLS, policyCells, rightsOf } from "./rights.ts";
import type { Index } from "./storage.ts";

export type TableOptions = {
  catalog(): Catalog;
  /** The roles of callers. */
  roles(): readonly Role[];
  /** Null while a table is locked. */
  indexes(table: Table): Promise<readonly Index[] | null>;
};

/** The page of one table: its neighbours, columns, keys, indexes, policies, and what each role may do. */
export async function tablePage(table: Table, tables: readonly Table[], options: TableOptions): Promise<Html> {
  const indexes = await options.indexes(table);
  const name = nameOf(table);
  return html`
${backToAll}
<h1><code>${name}</code></h1>
${table.comment && html`<p>${withoutSmartTags(table.comment)}</p>`}
<p class="row"><span class="muted">${table.kind}, owned by ${table.owner}</span> <a href="${CONSOLE}/data?table=${encodeURIComponent(name)}">Rows of this table</a></p>
${drawing(neighbourhood(table, tables))}
<h2>Columns</h2>
${records(["Column", "Type", "Null", "Default", "Description"], [...table.columns.values()].map(columnRow))}
<h2>Keys</h2>
${table.primaryKey.length === 0 ? html`<p class="warn">There is no primary key, so a single row cannot be changed.</p>` : null}
${table.uniqueKeys.length + table.relationships.length === 0 ? null : records(["Key", "Columns", "Refers to"], [...keyRows(table), ...foreignKeyRows(table)])}
<h2>Indexes</h2>
${indexesOf(indexes)}
<h2>Policies</h2>
${policiesTable(table)}
<h2>Who may what</h2>
${records(["Role", "May", "Read", "Insert", "Update"], rightsRows(table, options))}`;
}

/** The table, those that it refers to, and those that refer to it. */
function neighbourhood(table: Table, tables: readonly Table[]): readonly Table[] {
  const related = new Set(table.relationships.map(({ target }) => nameOf(target)));
  return tables.filter((each) => each === table || related.has(nameOf(each)));
}

const columnRow = ({ name, type, isNullable, defaultExpression, generated, comment }: Column): readonly Value[] => [
  html`<code>${name}</code>`,
  html`<code>${type}</code>`,
  isNullable ? "yes" : "no",
  generated === "always"
    ? html`<span class="muted">generated always</span>`
    : defaultExpression && html`<code>${defaultExpression}</code>`,
  comment && withoutSmartTags(comment),
];

const keyRows = ({ primaryKey, uniqueKeys }: Table): readonly (readonly Value[])[] =>
  uniqueKeys.map((columns) => [
    columns.join() === primaryKey.join() ? "primary key" : "unique",
    html`<code>${columns.join(", ")}</code>`,
    "",
  ]);

const foreignKeyRows = ({ relationships }: Table): readonly (readonly Value[])[] =>
  relationships.flatMap((each: Relationship) => {
    if (each.kind === "computed" || each.kind === "many-to-many") return [];
    const [own, others] = [0, 1].map((side) => each.columns.map((pair) => pair[side]).join(", "));
    const target = html`<a href="${linkTo(nameOf(each.target))}"><code>${nameOf(each.target)}</code></a> (${others!})`;
    return [
      [
        html`${each.isOwner ? "foreign key" : "referred to by"} <code>${each.constraint}</code>`,
        html`<code>${own!}</code>`,
        target,
      ],
    ];
  });

function indexesOf(indexes: readonly Index[] | null): Html {
  if (indexes === null)
    return html`<p class="notice">The indexes cannot be read now, because the table is locked: reload the page.</p>`;
  if (indexes.length === 0) return html`<p>No index.</p>`;
  return records(
    ["Index", "Definition", "Size", "Scans"],
    indexes.map(({ name, definition, size, isValid, scans }) => [
      html`<code>${name}</code>${isValid ? null : html` <strong class="bad">invalid</strong>`}`,
      html`<code>${definition}</code>`,
      sizeText(size),
      countText(scans),
    ]),
  );
}

function policiesTable({ rowSecurity: { isEnabled, policies }, kind }: Table): Html {
  if (kind.includes("view")) return html`<p>A view has none: the policies of its tables apply.</p>`;
  if (!isEnabled) return html`<p class="warn">Row-level security is off: a role with a grant may use every row.</p>`;
  if (policies.length === 0)
    return html`<p class="warn">No policy: only roles that bypass row-level security may use a row.</p>`;
  return records(
    [...POLICY_CELLS, "Roles"],
    policies.map((policy) => [...policyCells(policy), [...policy.roles].join(", ")]),
  );
}

function rightsRows(table: Table, { catalog, roles }: TableOptions): readonly (readonly Value[])[] {
  const all = catalog();
  const schema = all.schemas.get(table.schema)!;
  return roles().map((role) => {
    const link = html`<a href="${CONSOLE}/access?role=${encodeURIComponent(role.name)}&q=${encodeURIComponent(table.name)}">${role.name}</a>`;
    const exposure = mayUseSchema(all, role.name, schema) ? tableExposure(all, role.name, table) : null;
    const { select = [], insert = [], update = [] } = exposure?.columns ?? {};
    const isNothing = !exposure?.isDeletable && [select, insert, update].every((each) => each.length === 0);
    if (exposure === null || isNothing) return [link, "nothing", "", "", ""];
    const columns = (names: readonly string[] | "all") => (names === "all" ? "all columns" : names.join(", "));
    return [link, rightsOf(exposure, role, all), columns(select), columns(insert), columns(update)];
  });
}

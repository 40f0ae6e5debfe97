import { COMMAND } from "../../config/command.ts";
import type { Catalog, DatabaseFunction, Role } from "../../db/catalog/catalog.ts";
import { exposureOf, type TableExposure } from "../../db/catalog/exposure.ts";
import { policiesFor } from "../../db/catalog/policies.ts";
import type { Advice, Finding } from "../../db/findings/finding.ts";
import { type Html, html, type Value } from "../../gate/pages/html.ts";
import { records } from "../../gate/pages/table.ts";
import { selectField } from "./caller-form.ts";
import type { View } from "./console.ts";
import { CONSOLE } from "./path.ts";
import { POLICY_CELLS, policyCells } from "./rights.ts";

export type AccessOptions = {
  catalog(): Catalog;
  /** The roles of callers. */
  roles(): readonly Role[];
  readonly anonymousRole: string;
  /** Null where the advisor is off, or has not run yet. */
  advice(): Advice | null;
};

/** The most tables, functions and policies on one page. */
const MAX_SHOWN = 200;
const MAX_FINDINGS = 100;

/** `/console/access`: what each role may use, and what the advisor finds. */
export const accessView = (options: AccessOptions): View => ({
  path: `${CONSOLE}/access`,
  name: "Access",
  icon: "access",
  render({ query }) {
    const roles = options.roles();
    const role = roles.find(({ name }) => name === (query.get("role") ?? options.anonymousRole)) ?? roles[0];
    const search = (query.get("q") ?? "").slice(0, 63);
    return html`
<h1>Access</h1>
${findings(options.advice())}
<h2>What a role may use</h2>
<form method="get" class="row" role="search">
${selectField({ name: "role", label: "Role", values: roles.map(({ name }) => name), value: role?.name ?? "" })}
<label for="q">Name contains</label><input id="q" name="q" value="${search}" maxlength="63">
<button>Show</button>
</form>
${role ? exposure(role, search, options) : html`<p>The logins of the service may not become any role.</p>`}`;
  },
});

function exposure(role: Role, search: string, { catalog }: AccessOptions): Html {
  const { tables, functions } = exposureOf(catalog(), role.name);
  const matches = (name: string) => name.toLowerCase().includes(search.toLowerCase());
  const shown = tables.filter((each) => matches(each.table.name));
  const applied = shown.flatMap(({ table }) =>
    (policiesFor(catalog(), role.name, table) ?? []).map((policy) => {
      const [name, ...cells] = policyCells(policy);
      return [html`<code>${table.schema}.${table.name}</code><br>${name!}`, ...cells];
    }),
  );
  const others = [...role.inherits].filter((name) => name !== role.name && name !== "public");
  return html`
${others.length > 0 ? html`<p>${role.name} also has the privileges of ${others.join(", ")}.</p>` : null}
${role.bypassesRowSecurity ? html`<p class="warn">Row-level security does not apply to ${role.name}: it may use every row.</p>` : null}
<h3>Tables</h3>
${list(shown, "table", (rows) =>
  records(
    ["Table", "Rows", "Read", "Insert", "Update", "Delete"],
    rows.map((each) => tableRow(each, role, catalog())),
  ),
)}
<h3>Policies</h3>
${list(applied, "policy", (rows) => records(POLICY_CELLS, rows))}
<h3>Functions</h3>
${list(
  functions.filter(({ name }) => matches(name)),
  "function",
  (rows) => records(["Function", "Volatility"], rows.map(functionRow)),
)}`;
}

/** Shows at most `MAX_SHOWN` items, and how many more there are. */
function list<Item>(items: readonly Item[], noun: string, render: (items: readonly Item[]) => Html): Html {
  if (items.length === 0) return html`<p>No ${noun}.</p>`;
  const more = items.length - MAX_SHOWN;
  const note = more > 0 ? html`<p class="muted">${more} more: search for a part of the name.</p>` : null;
  return html`${render(items.slice(0, MAX_SHOWN))}${note}`;
}

function tableRow({ table, columns, isDeletable }: TableExposure, role: Role, catalog: Catalog): readonly Value[] {
  const { schema, name, rowSecurity, kind } = table;
  const count = policiesFor(catalog, role.name, table)?.length;
  const rows =
    count === undefined
      ? html`<span class="${rowSecurity.isEnabled || kind.includes("view") ? "muted" : "warn"}">all${kind === "table" ? "" : ` (${kind})`}</span>`
      : html`${count === 0 ? html`<span class="warn">none: no policy</span>` : `by ${count} ${count === 1 ? "policy" : "policies"}`}`;
  const cell = (names: readonly string[] | "all") => (names === "all" ? "all columns" : names.join(", "));
  const { select, insert, update } = columns;
  return [
    html`<code>${schema}.${name}</code>`,
    rows,
    cell(select),
    cell(insert),
    cell(update),
    isDeletable ? "yes" : "",
  ];
}

const functionRow = ({ schema, name, arguments: all, volatility }: DatabaseFunction): readonly Value[] => [
  html`<code>${schema}.${name}(${all.map((each) => `${each.name} ${each.type}`.trim()).join(", ")})</code>`,
  volatility,
];

function findings(advice: Advice | null): Html {
  if (advice === null)
    return html`<h2>Findings</h2><p>The advisor is off (<code>ADVISOR</code>), or has not finished its first run: reload the page.</p>`;
  const more = advice.findings.length - MAX_FINDINGS;
  return html`<h2>Findings</h2>
${advice.findings.length === 0 ? html`<p class="good">The advisor finds nothing wrong.</p>` : null}
${advice.findings.slice(0, MAX_FINDINGS).map(finding)}
${more > 0 ? html`<p class="muted">${more} more: <code>${COMMAND} advise</code> shows all.</p>` : null}
${advice.accepted.length > 0 ? html`<p class="muted">${advice.accepted.length} accepted: <code>${COMMAND} advise --accepted</code> shows them.</p>` : null}`;
}

/** The look of each level of a finding. */
export const LOOKS = { error: "bad", warning: "warn", note: "muted" } as const;

const finding = ({ level, object, reason, fix, rule }: Finding): Html => html`<section class="finding">
<h3><span class="${LOOKS[level]}">${level}</span> <code>${object}</code></h3>
<p>${reason} <span class="muted">(${rule})</span></p>
${fix && html`<pre tabindex="0"><code>${fix}</code></pre>`}
</section>`;

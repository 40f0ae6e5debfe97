import type { Catalog, Role, RowPolicy } from "../../db/catalog/catalog.ts";
import type { TableExposure } from "../../db/catalog/exposure.ts";
import { policiesFor } from "../../db/catalog/policies.ts";
import { html, type Value } from "../../gate/pages/html.ts";

/** `read, insert 3` and below it `all rows`, `by 2 policies` or `no rows` */
export function rightsOf(exposure: TableExposure | null, role: Role, catalog: Catalog): Value {
  if (exposure === null) return null;
  const { table, columns, isDeletable } = exposure;
  const words = [
    ...(["select", "insert", "update"] as const).flatMap((privilege) => {
      const of = columns[privilege];
      const verb = privilege === "select" ? "read" : privilege;
      return of === "all" ? [verb] : of.length > 0 ? [`${verb} ${of.length}`] : [];
    }),
    ...(isDeletable ? ["delete"] : []),
  ];
  const count = policiesFor(catalog, role.name, table)?.length;
  const rows =
    count === undefined ? "all rows" : count === 0 ? "no rows" : `by ${count} ${count === 1 ? "policy" : "policies"}`;
  const isOpen = count === undefined && !role.bypassesRowSecurity && table.kind === "table";
  const look = count === 0 || isOpen ? "warn" : "muted";
  return html`${words.join(", ")}<br><small class="${look}">${rows}</small>`;
}

/** The columns of a policy beside its table and roles. */
export const POLICY_CELLS = ["Policy", "For", "Rows that exist (using)", "Rows that are written (check)"];

export function policyCells({ name, command, isPermissive, using, check, isLocked }: RowPolicy): readonly Value[] {
  const clause = (text: string | null) => (isLocked ? "locked: reload the page" : text && html`<code>${text}</code>`);
  const mark = isPermissive ? null : html` <strong class="warn">restrictive</strong>`;
  return [html`${name}${mark}`, command, clause(using), clause(check)];
}

import type { Role, Table } from "../../db/catalog/catalog.ts";
import type { TableExposure } from "../../db/catalog/exposure.ts";
import { appliesTo, type Policy } from "../../db/rights/policies.ts";
import { html, type Value } from "../../http/pages/html.ts";

export const policiesOf = (table: Table, policies: readonly Policy[]): readonly Policy[] =>
  policies.filter((policy) => policy.schema === table.schema && policy.table === table.name);

/** `read, insert 3` and below it `all rows`, `by 2 policies` or `no rows` */
export function rightsOf(exposure: TableExposure | null, role: Role, policies: readonly Policy[]): Value {
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
  const count = policiesOf(table, policies).filter((policy) => appliesTo(policy, role.inherits)).length;
  const isRestricted = table.rowSecurity.isEnabled && !role.bypassesRowSecurity;
  const rows = !isRestricted
    ? "all rows"
    : count === 0
      ? "no rows"
      : `by ${count} ${count === 1 ? "policy" : "policies"}`;
  const look =
    rows === "no rows" || (!isRestricted && !role.bypassesRowSecurity && table.kind === "table") ? "warn" : "muted";
  return html`${words.join(", ")}<br><small class="${look}">${rows}</small>`;
}

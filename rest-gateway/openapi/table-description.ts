import type { Relationship } from "../../db/catalog/catalog.ts";
import { plainText } from "./comment.ts";
import type { Offer, OfferedTable } from "./visible-schema.ts";

/** The comment of a table, and what `select` can bring besides its columns: `Related rows: \`comments\`, \`users\`.` */
export function describeTable(offer: Offer, { table }: OfferedTable): string {
  const related = table.relationships.map((relationship) => embedName(offer, relationship));
  const computed = [...table.computedFields.keys()].filter((name) => offer.readers.has(name));
  return [
    plainText(table.comment),
    listed("Related rows", related),
    listed("Computed columns, which are returned when `select` names them", computed),
  ]
    .filter((text) => text !== "")
    .join("\n\n");
}

/** Null where the role does not get there. */
function embedName(offer: Offer, relationship: Relationship): string | null {
  const { target } = relationship;
  if (target.schema !== offer.schema.name || !offer.tables.get(target.name)?.isReadable) return null;
  if (relationship.kind !== "computed") return target.name;
  return offer.readers.has(relationship.function.name) ? relationship.function.name : null;
}

function listed(title: string, names: readonly (string | null)[]): string {
  const different = [...new Set(names)].filter((name) => name !== null).sort();
  return different.length === 0 ? "" : `${title}: ${different.map((name) => `\`${name}\``).join(", ")}.`;
}

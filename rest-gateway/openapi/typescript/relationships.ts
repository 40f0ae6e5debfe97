import type { Relationship, Table } from "../../../db/catalog/catalog.ts";
import { inOrder } from "./order.ts";
import { literal, openObject, type Type, tuple } from "./type.ts";

/** The foreign keys from a table or view to others of its schema, which is where the client looks for their names. */
export function relationshipsType({ schema, relationships }: Table): Type {
  const keys = relationships.filter(isOwnKey).filter(({ target }) => target.schema === schema);
  return tuple(inOrder(keys, identityOf).map(relationshipType));
}

type Key = Extract<Relationship, { kind: "many-to-one" | "one-to-one" | "one-to-many" }>;

const isOwnKey = (relationship: Relationship): relationship is Key => "isOwner" in relationship && relationship.isOwner;

const identityOf = ({ constraint, target, columns }: Key) => JSON.stringify([constraint, target.name, columns]);

function relationshipType({ kind, constraint, target, columns }: Key): Type {
  const names = (side: 0 | 1) => tuple(columns.map((pair) => literal(pair[side])));
  return openObject([
    { name: "foreignKeyName", type: literal(constraint) },
    { name: "columns", type: names(0) },
    { name: "isOneToOne", type: String(kind === "one-to-one") },
    { name: "referencedRelation", type: literal(target.name) },
    { name: "referencedColumns", type: names(1) },
  ]);
}

import type { Column, Relationship, Table } from "../../db/catalog/catalog.ts";
import { plainText } from "./comment.ts";
import type { Offer } from "./visible-schema.ts";

/**
 * What a column means. Its keys are told in the words of PostgREST, tags included, which clients look for:
 *
 *   The user who wrote the article.
 *
 *   Note:
 *   This is a Foreign Key to `users.id`.<fk table='users' column='id'/>
 */
export function describeColumn(offer: Offer, table: Table, column: Column): string {
  const text = plainText(column.comment);
  const notes = [primaryKeyNote(table, column), foreignKeyNote(offer, table, column)].filter((note) => note !== null);
  if (notes.length === 0) return text;
  const note = ["Note:", ...notes].join("\n");
  return text === "" ? note : `${text}\n\n${note}`;
}

const primaryKeyNote = ({ primaryKey }: Table, { name }: Column) =>
  primaryKey.includes(name) ? "This is a Primary Key.<pk/>" : null;

/** Where a column refers to a table and to a view over it, the table is told. */
function foreignKeyNote({ schema, tables }: Offer, table: Table, column: Column): string | null {
  const targets = table.relationships.flatMap((relationship) => {
    const to = referredColumn(relationship, column.name);
    const target = relationship.target.schema === schema.name ? tables.get(relationship.target.name) : undefined;
    return to === null || target === undefined ? [] : [{ ...target.table, to }];
  });
  const target = targets.find(({ kind }) => kind !== "view" && kind !== "materialized view") ?? targets[0];
  if (target === undefined) return null;
  const { name, to } = target;
  return `This is a Foreign Key to \`${name}.${to}\`.<fk table='${name}' column='${to}'/>`;
}

/** The column over there, when the relationship is a foreign key of this one column. */
function referredColumn(relationship: Relationship, column: string): string | null {
  if (!("isOwner" in relationship) || !relationship.isOwner || relationship.columns.length !== 1) return null;
  const [[from, to]] = relationship.columns as [readonly [string, string]];
  return from === column ? to : null;
}

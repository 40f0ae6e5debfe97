import type { PgResource, PgSelectStep } from "postgraphile/@dataplan/pg";

type Order = { readonly attribute: string; readonly direction: "ASC" | "DESC" };

/**
 * The order of a collection: the table's smart tag (`@order created_at desc, id desc`), else its primary key. The key
 * always comes last, so that no two rows are equal and a cursor marks one place.
 */
export function orderCollection(resource: PgResource<any, any, any, any, any>): ($select: PgSelectStep) => void {
  const order = orderOf(resource);
  const key = keyOf(resource).filter((attribute) => !order.some((column) => column.attribute === attribute));
  return ($select) => {
    for (const { attribute, direction } of order) $select.orderBy({ attribute, direction });
    for (const attribute of key) $select.orderBy({ attribute, direction: "ASC" });
    if (keyOf(resource).length > 0) $select.setOrderIsUnique();
  };
}

/** `created_at desc, id` → descending by created_at, then ascending by id. Throws at build time for unknown columns. */
function orderOf(resource: PgResource<any, any, any, any, any>): Order[] {
  const tag = resource.extensions?.tags?.order;
  if (typeof tag !== "string") return [];
  return tag.split(",").map((part) => {
    const [attribute = "", direction = "asc"] = part.trim().split(/\s+/);
    if (!(attribute in resource.codec.attributes) || !/^(asc|desc)$/i.test(direction)) {
      throw new Error(`@order ${tag} of ${resource.name}: "${part.trim()}" is not a column followed by asc or desc`);
    }
    return { attribute, direction: direction.toUpperCase() as Order["direction"] };
  });
}

function keyOf(resource: PgResource<any, any, any, any, any>): readonly string[] {
  const unique =
    resource.uniques.find((candidate: { isPrimary?: boolean }) => candidate.isPrimary) ?? resource.uniques[0];
  return unique?.attributes ?? [];
}

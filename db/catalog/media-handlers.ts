import type { MediaHandler } from "./catalog.ts";
import { quoteName } from "./quote.ts";
import type { Relations } from "./relations.ts";
import type { MediaHandlerRow } from "./rows/media-handlers.ts";
import type { Types } from "./types.ts";

/** The aggregates that make a media type of rows: of those of one served table, or of any. */
export function mediaHandlersOf(
  rows: readonly MediaHandlerRow[],
  relations: Relations,
  types: Types,
): readonly MediaHandler[] {
  return rows.flatMap(({ schema, name, takes, mediaType, returns }) => {
    const relation = relations.ofRowType(takes);
    if (!relation?.isServed && types.systemNameOf(takes) !== "anyelement") return [];
    return Object.freeze({
      mediaType: mediaType.toLowerCase(),
      function: quoteName({ schema, name }),
      table: relation ? relations.nameOf(relation.oid) : null,
      isBinary: types.shapeOf(returns).name === "bytea",
    });
  });
}

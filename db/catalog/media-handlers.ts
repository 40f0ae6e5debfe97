import { type MediaHandler, quoteName } from "./catalog.ts";
import type { Oid, Relations } from "./relations.ts";
import type { Types } from "./types.ts";

export type MediaHandlerRow = {
  readonly schema: string;
  readonly name: string;
  /** The row type of a table or view, or anyelement. */
  readonly takes: Oid;
  /** A domain with the name of a media type. */
  readonly mediaType: string;
  readonly returns: Oid;
};

/** `create aggregate lines_of(tags) (…, stype = "text/plain")`, in the served schemas. */
export const MEDIA_HANDLERS = `
  select s.name as schema, p.proname as name, p.proargtypes[0] as takes, domain.typname as "mediaType",
    domain.oid as returns
  from searched as s
  join pg_proc as p on p.pronamespace = s.oid
  join pg_type as domain on domain.oid = p.prorettype
  where s."isServed" and p.prokind = 'a' and p.pronargs = 1
    and domain.typtype = 'd' and domain.typname ~ '^[^/]+/[^/]+$'
  order by s.position, p.proname, p.oid`;

/** The aggregates that format rows of one served table, or of any table, as a media type. */
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

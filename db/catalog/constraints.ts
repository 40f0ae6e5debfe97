import type { ConstraintMessages } from "../errors.ts";
import type { Constraint } from "./catalog.ts";
import type { ConstraintRow } from "./rows/constraints.ts";

export const constraintsOf = (rows: readonly ConstraintRow[]): ReadonlyMap<string, Constraint> =>
  new Map(
    rows.map(({ key, comment, columns, check }) => [
      key,
      Object.freeze({
        message: (comment && withoutSmartTags(comment)) || null,
        columns: Object.freeze(columns),
        check,
      }),
    ]),
  );

/** Those that have something to say. */
export const messagesOf = (constraints: ReadonlyMap<string, Constraint>): ConstraintMessages =>
  new Map([...constraints].flatMap(([key, { message }]) => (message === null ? [] : [[key, message]])));

const withoutSmartTags = (comment: string) => comment.replace(/^@.*$/gm, "").trim();

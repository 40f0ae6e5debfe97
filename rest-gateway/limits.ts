import type { Config } from "../config/config.ts";

type Settings = Pick<Config, "bodyLimit" | "dbMaxRows" | "isDbMaxRowsSet">;

export type RestLimits = Readonly<ReturnType<typeof restLimits>>;

/** Numbers of requests to tables and resources that no operator has a reason to change. */
export const restLimits = ({ bodyLimit, dbMaxRows, isDbMaxRowsSet }: Settings) => ({
  /** Nesting of embedded relationships. */
  restMaxEmbedDepth: 10,
  /** Nesting of and(…) and or(…). */
  restMaxConditionDepth: 20,
  /** Embedded relationships of a request. */
  restMaxEmbeds: 500,
  /** !inner and null filters on embedded relationships. */
  restMaxEmbedFilters: 20,
  /** Bytes of a body of the table interface. */
  restBodyLimit: 16 * bodyLimit,
  /** Records that one POST to a resource may create. */
  apiMaxRecords: 10_000,
  /** Rows of a streamed result; 0 without DB_MAX_ROWS, or with its default. */
  streamMaxRows: isDbMaxRowsSet ? dbMaxRows : 0,
  /** Milliseconds after which a streamed response is cut off. */
  streamTimeout: 3_600_000,
});

import type { IncomingHttpHeaders } from "node:http";

/** What an HTTP request says to the table interface. */
export type Incoming = {
  readonly method: string;
  /** What follows `/rest/v1/`, percent-encoded: `users`, `rpc/add`. */
  readonly path: string;
  /** As it stands in the URL, without `?`. */
  readonly search: string;
  readonly headers: IncomingHttpHeaders;
  /** Null when the method has none. */
  readonly body: Buffer | null;
  readonly limits: ParseLimits;
};

export type ParseLimits = {
  /** Levels of brackets in a body of JSON. */ readonly bodyDepth: number;
  /** Levels of embedded relations. */ readonly embedDepth: number;
  /** Levels of `and` and `or`. */ readonly conditionDepth: number;
};

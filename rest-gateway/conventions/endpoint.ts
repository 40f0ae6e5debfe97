import type { Caller } from "../../db/caller.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";
import type { Header } from "./headers.ts";
import type { Parameters } from "./parameters.ts";
import type { Version } from "./version.ts";

/** An endpoint that follows the REST conventions but is not a resource, such as `/tasks`. */
export type Endpoint = {
  /** The methods of a path, including OPTIONS; null for an unknown path. */
  methodsAt(segments: readonly string[]): readonly string[] | null;
  /** Throws Problem. */
  answer(request: EndpointRequest): Promise<RestAnswer>;
};

export type EndpointRequest = {
  readonly method: string;
  readonly segments: readonly string[];
  readonly parameters: Parameters;
  readonly caller: Caller;
  readonly request: RequestContext;
  readonly version: Version;
  /** The prefix of links: `/api/v2`, or "". */
  readonly prefix: string;
};

/** The response of a REST endpoint. If the client already has it, 304 is sent instead. */
export type RestAnswer = {
  readonly status: number;
  readonly headers: readonly Header[];
  /** JSON text; null for no body. */
  readonly body: Buffer | null;
  /** `"v1-734"`, quotes included; null for no entity tag. */
  readonly etag: string | null;
  readonly lastModified: Date | null;
};

export const answerOf = (status: number, body: Buffer | null = null, headers: readonly Header[] = []): RestAnswer => ({
  status,
  headers,
  body,
  etag: null,
  lastModified: null,
});

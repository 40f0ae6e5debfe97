import type { Caller } from "../../db/caller.ts";
import type { RequestContext } from "../../db/identity.ts";
import type { Parameters } from "./parameters.ts";
import type { Version } from "./version.ts";

/** Something beside the resources that lives under the same conventions, such as `/tasks`. */
export type Endpoint = {
  /** The methods of an address, OPTIONS among them; null for one that leads nowhere. */
  methodsAt(segments: readonly string[]): readonly string[] | null;
  /** Throws RestError. */
  answer(asked: Asked): Promise<RestAnswer>;
};

export type Asked = {
  readonly method: string;
  readonly segments: readonly string[];
  readonly parameters: Parameters;
  readonly caller: Caller;
  readonly request: RequestContext;
  readonly version: Version;
  /** What addresses begin with: `/api/v2`, or "". */
  readonly prefix: string;
};

export type Header = readonly [name: string, value: string];

/** What a REST endpoint answers; whether the client has it already is looked at when it is sent. */
export type RestAnswer = {
  readonly status: number;
  readonly headers: readonly Header[];
  /** JSON text; null is no body. */
  readonly body: Buffer | null;
  /** `"v1-734"`, quotes included; null where there is none. */
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

import type { IncomingHttpHeaders } from "node:http";
import type { Condition } from "../../db/filters/condition.ts";
import type { Field } from "../../db/filters/field.ts";
import type { PatternLimits } from "../../db/filters/patterns.ts";
import type { AggregateName } from "../../db/query/plan.ts";
import type { PlannedQuery } from "../../db/query/query.ts";
import type { TransactionSettings } from "../../db/transaction/identity.ts";
import type { HttpLimits } from "../../gate/limits.ts";
import type { MediaType } from "../conventions/headers.ts";
import type { RestLimits } from "../limits.ts";

/**
 * A parsed request to the table interface. Names are as the client wrote them, not yet looked up. The values of filters
 * are in `values`, and filters refer to them by index, so that requests of one shape share a plan.
 */
export type TableRequest = {
  readonly method: Method;
  readonly target: Target;
  /** The schema of the profile header; null for the default schema. */
  readonly schema: string | null;
  readonly query: QueryString;
  readonly values: readonly string[];
  readonly preferences: Preferences;
  /** The rows of the header Range; null without one, and for methods other than GET. */
  readonly range: Range | null;
  /** Acceptable media types, the most preferred first. */
  readonly accept: readonly MediaType[];
  readonly body: Body | null;
  /** Whether changes follow the rows: those of tables that inherit from the table are changes of these. */
  readonly isSnapshot?: boolean;
  /** Equal for requests that differ only in values. Names, operators, limits, preferences and body columns are part of it. */
  readonly shape: string;
};

/** A planned request without its values. All requests of one shape share it. */
export type PlannedRequest = PlannedQuery & {
  readonly preferences: Preferences;
  /** The session settings of the transaction. */
  readonly settings: TransactionSettings;
  /** The header Content-Profile; null when only one schema is exposed. */
  readonly profile: string | null;
  /** The header Preference-Applied: the preferences that had an effect; "" for none. */
  readonly appliedPreferences: string;
  /** The header Warning; null without one. */
  readonly warning: string | null;
};

export type Method = "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS";

export type Target =
  | { readonly kind: "table"; readonly name: string }
  | { readonly kind: "function"; readonly name: string };

/** A parsed query string. */
export type QueryString = {
  /** All columns when there is no `select`. */
  readonly select: readonly SelectItem[];
  /** Conditions, order and limits by path: `""` for the rows themselves, `"author.posts"` for embedded rows. */
  readonly parts: ReadonlyMap<string, QueryPart>;
  /** `columns=`: the columns that are read from the body; null for all. */
  readonly columns: readonly string[] | null;
  /** `on_conflict=`; null for the primary key. */
  readonly onConflict: readonly string[] | null;
  /** The arguments of a function called by GET, each with the indexes of its values. */
  readonly arguments: ReadonlyMap<string, readonly number[]>;
};

export type QueryPart = {
  /** Combined with AND. */
  readonly conditions: readonly Condition<Field>[];
  readonly order: readonly OrderTerm[];
  readonly limit: number | null;
  readonly offset: number;
};

export type SelectItem =
  | { readonly kind: "all" }
  | {
      readonly kind: "field";
      /** Null for `count()` of rows. */
      readonly field: Field | null;
      readonly alias: string | null;
      /** The name of a type as the client wrote it. It is applied before the aggregate. */
      readonly cast: string | null;
      readonly aggregate: Aggregate | null;
    }
  | {
      readonly kind: "embed";
      /** A table, view, constraint, foreign key column or computed relationship. */
      readonly name: string;
      readonly alias: string | null;
      readonly hint: string | null;
      readonly join: "inner" | "left" | null;
      readonly isSpread: boolean;
      readonly select: readonly SelectItem[];
    };

export type Aggregate = { readonly name: AggregateName; readonly cast: string | null };

/** `author(name).desc.nullslast`: `relation` is the embed whose column orders the rows. */
export type OrderTerm = {
  readonly relation: string | null;
  readonly field: Field;
  readonly direction: "asc" | "desc" | null;
  readonly nulls: "first" | "last" | null;
};

/** `Range: 0-9`, both inclusive and counted from 0. `last` is null for an open range. */
export type Range = { readonly first: number; readonly last: number | null };

export type Preferences = {
  readonly resolution: "merge-duplicates" | "ignore-duplicates" | null;
  readonly missing: "default" | "null" | null;
  readonly return: "minimal" | "headers-only" | "representation" | null;
  readonly count: "exact" | "planned" | "estimated" | null;
  readonly tx: "commit" | "rollback" | null;
  readonly handling: "strict" | "lenient" | null;
  readonly timezone: string | null;
  readonly maxAffected: number | null;
  /** Not from a replica. */
  readonly read: "primary" | null;
  /** `respond-async`: the call of a function becomes a task. */
  readonly respondsAsync: boolean;
  /** Invalid preferences, as the client wrote them. */
  readonly invalid: readonly string[];
};

/** The body, parsed only to find its columns. Postgres receives its text unchanged. */
export type Body =
  | ({ readonly kind: "json" } & JsonContent)
  | {
      readonly kind: "text";
      readonly type: "text/plain" | "text/xml" | "application/octet-stream";
      readonly bytes: Buffer;
    };

/** A body as JSON. */
export type JsonContent = {
  /** What the text was converted from. */
  readonly source: "json" | "csv" | "form";
  /** That of a large body is its UTF-8. */
  readonly text: string | readonly Buffer[];
  readonly isArray: boolean;
  /** The keys of the object, or of every object in the array; null when the objects have different keys. */
  readonly keys: readonly string[] | null;
  /** The number of objects; 1 when the body is an object. */
  readonly rows: number;
  /** Neither an object nor an array of objects. Only a function with a single unnamed argument accepts it. */
  readonly isOther: boolean;
  /** Where the elements of a large array are, as `elementsOf` returns it; absent or null for every other body. */
  readonly elements?: Uint32Array | null;
};

/** The parts of a request's URL. `search` contains no credential, so it may be stored and returned. */
export type RequestUrl = { readonly path: string; readonly search: string; readonly apiKey: string | null };

/** A request as it arrived, or as it was stored for a task. */
export type RequestText = {
  readonly method: string;
  readonly url: RequestUrl;
  readonly headers: IncomingHttpHeaders;
  /** Null when the method has no body. */
  readonly body: Buffer | null;
  /** What has been read of a large body. */
  readonly content?: JsonContent;
};

/** The media type of a query string in a body. */
export const QUERY_TYPE = "application/x-www-form-urlencoded";

/** Parameters that are not filters. A column with one of these names must be quoted in a query string. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  ...["select", "columns", "on_conflict", "order", "limit", "offset", "and", "or"],
]);

export type ParseLimits = PatternLimits &
  Pick<HttpLimits, "jsonMaxDepth"> &
  Pick<RestLimits, "restMaxEmbedDepth" | "restMaxConditionDepth">;

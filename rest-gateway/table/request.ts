import type { MediaType } from "../conventions/media.ts";

/**
 * A request of the table interface, read but not yet looked up: names are what the client wrote. Values of filters stand
 * in `values` and are named by their index, so that requests of one shape share a plan.
 */
export type TableRequest = {
  readonly method: Method;
  readonly target: Target;
  /** The profile that was asked for; null for the default schema. */
  readonly schema: string | null;
  readonly query: Query;
  readonly values: readonly string[];
  readonly preferences: Preferences;
  /** Rows by the header Range; null when there is none, or the method has none. */
  readonly range: Range | null;
  /** Media types of the answer, the most wanted first. */
  readonly accept: readonly MediaType[];
  readonly body: Body | null;
  /** Equal for requests that differ in values alone: names, operators, limits, preferences, columns of the body. */
  readonly shape: string;
};

export type Method = "GET" | "HEAD" | "POST" | "PATCH" | "PUT" | "DELETE" | "OPTIONS";

export type Target =
  | { readonly kind: "table"; readonly name: string }
  | { readonly kind: "function"; readonly name: string };

/** The query string. */
export type Query = {
  /** Without `select`: everything. */
  readonly select: readonly SelectItem[];
  /** What is said of the rows themselves, under "", and of embedded ones, under their path: `"author.articles"`. */
  readonly parts: ReadonlyMap<string, QueryPart>;
  /** `columns=`: what is read from the body; null for all. */
  readonly columns: readonly string[] | null;
  /** `on_conflict=`; null for the primary key. */
  readonly onConflict: readonly string[] | null;
  /** Of rpc by GET: arguments, each with the indexes of its values. */
  readonly arguments: ReadonlyMap<string, readonly number[]>;
};

export type QueryPart = {
  /** All of them must hold. */
  readonly conditions: readonly Condition[];
  readonly order: readonly OrderTerm[];
  readonly limit: number | null;
  readonly offset: number;
};

/** `data->address->>city` → `{ name: "data", path: [{ arrow: "->", key: "address" }, { arrow: "->>", key: "city" }] }` */
export type Field = { readonly name: string; readonly path: readonly JsonStep[] };
export type JsonStep = { readonly arrow: "->" | "->>"; readonly key: string | number };

export type SelectItem =
  | { readonly kind: "all" }
  | {
      readonly kind: "field";
      /** Null for `count()` of rows. */
      readonly field: Field | null;
      readonly alias: string | null;
      /** A type's name as the client wrote it; in front of the aggregate where there is one. */
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
export type AggregateName = "sum" | "avg" | "min" | "max" | "count";

export type Condition = Filter | Logic;

/** `or=(a.eq.1,not.b.is.null)` */
export type Logic = {
  readonly kind: "logic";
  readonly operator: "and" | "or";
  readonly isNegated: boolean;
  readonly conditions: readonly Condition[];
};

/** `title=not.ilike(any).{*sql*,*json*}` */
export type Filter = {
  readonly kind: "filter";
  readonly field: Field;
  readonly isNegated: boolean;
  readonly operator: Operator;
  readonly quantifier: "any" | "all" | null;
  /** Text search configuration: `fts(english)`. */
  readonly language: string | null;
  /**
   * Index in `values`. The values of `in` and of quantified operators are array literals of Postgres: `{"a","b"}`;
   * wildcards of like and ilike are `%` already. For `is` an index too: null, not_null, true, false, unknown in lower case,
   * but as part of the shape, in `keyword`.
   */
  readonly value: number;
  /** Of `is` alone. */
  readonly keyword: IsKeyword | null;
};

export type IsKeyword = "null" | "not_null" | "true" | "false" | "unknown";

export type Operator =
  | "eq"
  | "neq"
  | "gt"
  | "gte"
  | "lt"
  | "lte"
  | "like"
  | "ilike"
  | "match"
  | "imatch"
  | "in"
  | "is"
  | "isdistinct"
  | "cs"
  | "cd"
  | "ov"
  | "sl"
  | "sr"
  | "nxr"
  | "nxl"
  | "adj"
  | "fts"
  | "plfts"
  | "phfts"
  | "wfts";

/** `author(name).desc.nullslast`: `relation` is the embed whose column orders the rows. */
export type OrderTerm = {
  readonly relation: string | null;
  readonly field: Field;
  readonly direction: "asc" | "desc" | null;
  readonly nulls: "first" | "last" | null;
};

/** `Range: 0-9`; `last` null is open. Both count from 0. */
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
  /** Not to wait for what a function does. */
  readonly respondsAsync: boolean;
  /** Values that no preference has, as they were written. */
  readonly invalid: readonly string[];
};

/** The body, read as far as its columns must be known; its text goes to Postgres as it is. */
export type Body =
  | {
      readonly kind: "json";
      readonly text: string;
      readonly isArray: boolean;
      /** Keys of the object, or of every object of the array; null when they differ from object to object. */
      readonly keys: readonly string[] | null;
      /** Objects in the array; 1 for an object. */
      readonly rows: number;
      /** Neither an object nor an array of objects: only functions with one unnamed argument take it. */
      readonly isOther: boolean;
    }
  | {
      readonly kind: "text";
      readonly type: "text/plain" | "text/xml" | "application/octet-stream";
      readonly bytes: Buffer;
    };

/** The parts of a request's URL. `search` has no credential in it, so that it may be stored and returned. */
export type RequestUrl = { readonly path: string; readonly search: string; readonly apiKey: string | null };

/** Names of parameters: a column with one of these names is quoted in a query string. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set([
  ...["select", "columns", "on_conflict", "order", "limit", "offset", "and", "or"],
]);

export type ParseLimits = {
  /** Levels of brackets in a JSON body. */
  readonly bodyDepth: number;
  /** Levels of embedded relations. */
  readonly embedDepth: number;
  /** Levels of `and` and `or`. */
  readonly conditionDepth: number;
};

import type { Collection, Filter, Relation, Resource, ResourceField } from "./resource.ts";

/** How a client wants its answer to look. */
export type Style = {
  readonly version: 1 | 2;
  /** Names of fields in camelCase. */
  readonly isCamel: boolean;
  /** What addresses of the answer begin with: `/api/v2`, or "". */
  readonly prefix: string;
};

/** Fields of a record in the order of the answer; `links` is the block of addresses. */
export type Selection = {
  readonly fields: readonly ResourceField[];
  readonly relations: readonly { readonly relation: Relation; readonly selection: Selection }[];
  readonly hasLinks: boolean;
};

/** The one record that an address names; `id` and those of parents are indexes of values. */
export type Key = { readonly id: number; readonly parent: Parent | null };

/** `/articles/7/comments`: the records with this key in the collection's field. */
export type Parent = { readonly resource: Resource; readonly collection: Collection; readonly id: number };

export type Condition = { readonly filter: Filter /** Index in values. */; readonly value: number };

export type OrderTerm = { readonly field: ResourceField; readonly direction: "asc" | "desc" };

/** Which part of a list, and in which form it is told. `page` of "envelope" counts from 1, of "page object" from 0. */
export type Paging =
  | { readonly form: "array" | "skip and limit"; readonly offset: number; readonly limit: number }
  | {
      readonly form: "envelope" | "page object";
      readonly page: number;
      readonly offset: number;
      readonly limit: number;
    }
  /** Everything, for a task. */
  | { readonly form: "export"; readonly offset: 0; readonly limit: null };

/** What must hold for the row as it is, for a change to be made; indexes of values. */
export type Preconditions = {
  /** The row's version is one of these: an array literal. */
  readonly isOneOf: number | null;
  readonly isNoneOf: number | null;
  /** Seconds since 1970. */
  readonly unmodifiedSince: number | null;
  /** Nothing fulfils it: `If-None-Match: *`. */
  readonly isImpossible: boolean;
};

/** What is asked of a resource, looked up in its description. Values of the request stand in `values` of the request. */
export type Operation =
  | {
      readonly kind: "list";
      readonly parent: Parent | null;
      readonly conditions: readonly Condition[];
      readonly keyword: number | null;
      readonly order: readonly OrderTerm[];
      readonly paging: Paging;
    }
  | { readonly kind: "read"; readonly key: Key }
  | {
      readonly kind: "create";
      readonly parent: Parent | null;
      readonly fields: readonly ResourceField[];
      /** Several at once, from an array. */
      readonly isMany: boolean;
      readonly body: number;
    }
  | {
      readonly kind: "update";
      readonly key: Key;
      readonly fields: readonly ResourceField[];
      /** Those that PUT leaves out go back to their defaults. */
      readonly reset: readonly ResourceField[];
      readonly body: number;
      readonly preconditions: Preconditions;
    }
  | { readonly kind: "delete"; readonly key: Key; readonly isCascading: boolean; readonly preconditions: Preconditions }
  | { readonly kind: "act"; readonly key: Key; readonly action: string };

export type ResourceRequest = {
  readonly resource: Resource;
  readonly style: Style;
  readonly operation: Operation;
  readonly selection: Selection;
  readonly values: readonly string[];
  /** Equal for requests that differ in values alone. */
  readonly shape: string;
};

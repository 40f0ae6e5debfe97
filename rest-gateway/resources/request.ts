import type { Paging } from "../conventions/paging.ts";
import type { Version } from "../conventions/version.ts";
import type { Collection, Filter, Relation, Resource, ResourceField } from "./resource.ts";

/** How a client wants its answer to look. */
export type Style = {
  readonly version: Version;
  /** Names of fields in camelCase. */
  readonly isCamel: boolean;
  /** What addresses of the answer begin with: `/api/v2`, or "". */
  readonly prefix: string;
};

/** The name of a field or a relation as the client spells it. */
export const nameIn = (
  { name, camelName }: { readonly name: string; readonly camelName: string },
  { isCamel }: Pick<Style, "isCamel">,
): string => (isCamel ? camelName : name);

/** Fields of a record in the order of the answer; `links` is the block of addresses. */
export type Selection = {
  readonly fields: readonly ResourceField[];
  readonly relations: readonly { readonly relation: Relation; readonly selection: Selection }[];
  readonly hasLinks: boolean;
};

/** Whether the record alone is told: then the version and the date of its row are those of the answer. */
export const isOfOneRow = ({ relations }: Selection): boolean => relations.length === 0;

/** The one record that an address names; `id` and those of parents are indexes of values. */
export type Key = { readonly id: number; readonly parent: Parent | null };

/** `/articles/7/comments`: the records with this key in the collection's field. */
export type Parent = { readonly resource: Resource; readonly collection: Collection; readonly id: number };

export type Condition = { readonly filter: Filter /** Index in values. */; readonly value: number };

export type OrderTerm = { readonly field: ResourceField; readonly direction: "asc" | "desc" };

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

/** Whether anything must hold: `If-Match: *` asks for no more than that the row is there. */
export const isConditional = ({ isOneOf, isNoneOf, unmodifiedSince, isImpossible }: Preconditions): boolean =>
  isOneOf !== null || isNoneOf !== null || unmodifiedSince !== null || isImpossible;

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
  | { readonly kind: "act"; readonly key: Key; readonly action: string; readonly preconditions: Preconditions };

export type ResourceRequest = {
  readonly resource: Resource;
  readonly style: Style;
  readonly operation: Operation;
  readonly selection: Selection;
  readonly values: readonly string[];
  /** Equal for requests that differ in values alone. */
  readonly shape: string;
};

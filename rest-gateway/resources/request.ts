import type { IncomingHttpHeaders } from "node:http";
import type { Condition } from "../../db/filters/condition.ts";
import type { Paging } from "../conventions/paging.ts";
import type { Parameters } from "../conventions/parameters.ts";
import type { Version } from "../conventions/version.ts";
import type { Dialect } from "./description.ts";
import type { Relation, Resource, ResourceField } from "./resource.ts";

/** `Prefer: dialect=none` turns off the dialects of the settings: responses have the forms of the contract. */
export const NO_DIALECT = "none";
export type NamedDialect = Dialect | typeof NO_DIALECT;

/** The header Prefer. */
export type Preferences = {
  readonly dialects: ReadonlySet<Dialect>;
  /** Those that the client itself names. */
  readonly named: ReadonlySet<NamedDialect>;
  readonly handling: "strict" | "lenient" | null;
  readonly respondsAsync: boolean;
  /** Not from a replica. */
  readonly read: "primary" | null;
  readonly unknown: readonly string[];
};

/** What a response looks like. */
export type Style = {
  readonly version: Version;
  /** Names of fields in camelCase. */
  readonly isCamel: boolean;
  /** The prefix of links: `/api/v2`, or "". */
  readonly prefix: string;
};

/** A request as it was sent, before names are looked up: `PATCH /api/v2/users/7?fields=name`. */
export type RequestText = {
  readonly method: string;
  readonly path: string;
  /** `/api/v2`; "" where the path names no version. */
  readonly prefix: string;
  readonly parameters: Parameters;
  readonly headers: IncomingHttpHeaders;
  readonly preferences: Preferences;
  readonly style: Style;
  /** The media type of the response. */
  readonly contentType: string;
  /** Null until it has been read, and for methods without one. */
  readonly body: Buffer | null;
  /** Whether a task handles the request: then a GET is for the whole list instead of a page. */
  readonly isTask: boolean;
};

/** The name of a field or a relation as the client spells it. */
export const nameIn = (
  { name, camelName }: { readonly name: string; readonly camelName: string },
  { isCamel }: Pick<Style, "isCamel">,
): string => (isCamel ? camelName : name);

/** The block of links in a record. */
export const LINKS = "_links";

/** What is shown of a record, in this order. */
export type Selection = {
  readonly fields: readonly ResourceField[];
  readonly relations: readonly { readonly relation: Relation; readonly selection: Selection }[];
  readonly hasLinks: boolean;
};

/** Whether the response shows one row only: then the version and the date of the row are those of the response. */
export const isOfOneRow = ({ relations }: Selection): boolean => relations.length === 0;

/** The record that a path names. `id`, also that of a parent, is an index of values. */
export type Key = { readonly id: number; readonly parent: Parent | null };

/** `/posts/7/comments`: the records of post 7, whose id is in `field` of each record. */
export type Parent = { readonly resource: Resource; readonly field: ResourceField; readonly id: number };

export type ListCondition = Condition<ResourceField, number, SameText>;
/** The text of a field, ignoring case. `value` is an index of values. */
export type SameText = {
  readonly kind: "same text";
  readonly isNegated: false;
  readonly field: ResourceField;
  readonly value: number;
};

export type OrderTerm = { readonly field: ResourceField; readonly direction: "asc" | "desc" };

/** What must hold for the current row, for a change to be made. */
export type Precondition =
  /** The row's version is in an array literal. `value` is an index of values. */
  | { readonly kind: "version in" | "version not in"; readonly value: number }
  /** Seconds since 1970. `value` is an index of values. */
  | { readonly kind: "unmodified since"; readonly value: number }
  /** `If-None-Match: *`: no existing row fulfils it. */
  | { readonly kind: "never" };

/** The operation of a request. Its values are indexes of `values` of the request. */
export type Operation =
  | {
      readonly kind: "list";
      readonly parent: Parent | null;
      readonly conditions: readonly ListCondition[];
      readonly keyword: number | null;
      readonly order: readonly OrderTerm[];
      readonly paging: Paging;
    }
  | { readonly kind: "read"; readonly key: Key }
  | {
      readonly kind: "create";
      readonly parent: Parent | null;
      /** The fields in the body, without that of the parent, whose value is in the path. */
      readonly fields: readonly ResourceField[];
      /** Several records from an array. */
      readonly isMany: boolean;
      /** Whether a field may be absent from some records, which then have its default. */
      readonly fillsDefaults: boolean;
    }
  | {
      readonly kind: "update";
      readonly key: Key;
      readonly fields: readonly ResourceField[];
      /** Fields that are absent from a PUT, and set to their defaults. */
      readonly reset: readonly ResourceField[];
      readonly preconditions: readonly Precondition[];
    }
  | {
      readonly kind: "delete";
      readonly key: Key;
      readonly isCascading: boolean;
      readonly preconditions: readonly Precondition[];
    }
  | {
      readonly kind: "act";
      readonly key: Key;
      readonly action: string;
      readonly preconditions: readonly Precondition[];
    };

/** Whether a request changes nothing. */
export const isRead = ({ operation: { kind } }: ResourceRequest): boolean => kind === "list" || kind === "read";

export type OperationOf<Kind extends Operation["kind"]> = Extract<Operation, { kind: Kind }>;

/** What is written, by column: an object, or an array of them. */
export type RecordsBody = {
  readonly kind: "json";
  readonly text: string;
  readonly records: readonly Columns[];
};

export type Columns = Readonly<Record<string, unknown>>;

export const recordsBody = (records: readonly Columns[], isArray: boolean): RecordsBody => ({
  kind: "json",
  text: JSON.stringify(isArray ? records : records[0]),
  records,
});

/** The values of a request, on their way to the parameters of a statement. */
export class Values {
  readonly all: string[] = [];

  /** The index of the value. */
  add(text: string): number {
    return this.all.push(text) - 1;
  }
}

/** The credentials of a new user. */
export type AccountInput = { readonly username: string | null; readonly password: string };

export type ResourceRequest = {
  readonly resource: Resource;
  readonly style: Style;
  readonly operation: Operation;
  readonly selection: Selection;
  readonly values: readonly string[];
  /** Null for requests without one. */
  readonly body: RecordsBody | null;
  /** Null unless the request creates a user with a password. */
  readonly account: AccountInput | null;
  /** Equal for requests that differ only in values. */
  readonly shape: string;
};

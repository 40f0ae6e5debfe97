import type { Editor } from "../../db/cluster/provision.ts";
import type { RestCode } from "../../problems/reasons.ts";

/**
 * A resource: its table, its fields, and what clients may do with them. The rules about the data are not here: they are
 * constraints, policies and functions of the database. Names of fields and parameters are in snake_case; they are converted
 * for clients that use camelCase.
 */
export type Description = {
  /** The collection in paths, plural: `posts`. */
  readonly name: string;
  /** One record, in messages: `post`. */
  readonly singular: string;
  /** A sentence for the API reference. */
  readonly about: string;
  /** Table or view, with its schema: `public.posts`. The first of `fields` is the key: an integer or a UUID. */
  readonly table: string;
  readonly fields: Readonly<Record<string, FieldDescription>>;
  /** The date of `Last-Modified`: the first of these fields that has a value. */
  readonly modified: readonly string[];
  /** The error code for an unknown id. */
  readonly missing: RestCode;
  /** The list in version 1: a plain array, or the envelope of the general convention. */
  readonly list: "array" | "envelope";
  /** The default number of records on a page. */
  readonly pageSize: number;
  /** The default order. The key is added at the end. */
  readonly order: readonly SortTerm[];
  readonly sorts: readonly string[];
  readonly filters: Readonly<Record<string, FilterDescription>>;
  /** A function of a row and a text, with its schema, that returns whether the row matches `?keyword=`; null if lists have no search. */
  readonly search: string | null;
  /** Records that this one refers to, for links and `?fields=author.name`. */
  readonly relations: Readonly<Record<string, RelationDescription>>;
  /** Records that refer to this one: `/posts/{id}/comments`. */
  readonly collections: Readonly<Record<string, CollectionDescription>>;
  /** Further operations on a record: `POST /posts/{id}/publish`. */
  readonly actions: Readonly<Record<string, ActionDescription>>;
  /**
   * Rows that `DELETE ?cascade=true` deletes too, in this order. Otherwise they prevent the deletion. The row is locked
   * first, which requires the right to update one of its columns.
   */
  readonly cascade: readonly Reference[];
  /** Of PUT, PATCH and DELETE without credentials; null if they always require credentials. */
  readonly editor: Editor | null;
  /** Whether `POST` may contain a password, which creates an account. */
  readonly hasAccount: boolean;
};

export type FieldDescription = {
  /** The default is the name of the field. */
  readonly column?: string;
  /** When clients may set it. The default is never. */
  readonly write?: "on create" | "always";
  /** Whether POST and PUT must contain it. */
  readonly isRequired?: boolean;
};

export type SortTerm = { readonly field: string; readonly direction: "asc" | "desc" };

/** `?status=DRAFT`; `has` is for arrays: `?tag=sql`; `alike` compares texts without case. */
export type FilterDescription = {
  readonly field: string;
  readonly operator: "is" | "alike" | "has" | "from" | "before";
  readonly about: string;
};

export type RelationDescription = {
  readonly resource: string;
  /** The field with the key of the other resource. */
  readonly field: string;
};

export type CollectionDescription = {
  readonly resource: string;
  /** The field of the other resource that has the key of this one. */
  readonly field: string;
  /** Whether POST creates a record in it. */
  readonly isCreatable: boolean;
};

export type ActionDescription = {
  /** A function of the key that returns the row, with its schema: `public.publish_post`. */
  readonly function: string;
  readonly about: string;
};

export type Reference = {
  readonly table: string;
  /** The column with the key of this resource. */
  readonly column: string;
};

/**
 * Response formats besides the usual ones: the shape of errors (detail, flat), the page envelope of version 1 (envelope), PUT keeps absent
 * fields (partial), field names in camelCase (case).
 */
export const DIALECTS = ["detail", "flat", "envelope", "partial", "case"] as const;
export type Dialect = (typeof DIALECTS)[number];

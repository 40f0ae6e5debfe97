import type { RestCode } from "../conventions/problem.ts";

/**
 * A resource as its team writes it down: whose rows it has, and what clients may ask of them. The rules about the data are
 * not here: they are constraints, policies and functions of the database. Names of fields and parameters are in snake_case;
 * where clients want camelCase they are turned into it.
 */
export type Description = {
  /** The collection in addresses, plural: `articles`. */
  readonly name: string;
  /** One of it, in sentences: `article`. */
  readonly singular: string;
  /** A sentence for the reference. */
  readonly about: string;
  /** Table or view, with its schema: `public.articles`. Its first column of `fields` is the key: a whole number or a UUID. */
  readonly table: string;
  readonly fields: Readonly<Record<string, FieldDescription>>;
  /** What decides over `If-Modified-Since`: the first of these fields that has a value. */
  readonly modified: readonly string[];
  /** Code of "there is no such row". */
  readonly missing: RestCode;
  /** Version 1 of the list: a plain array, or the envelope of the general convention. */
  readonly list: "array" | "envelope";
  /** Records on a page when nobody says. */
  readonly pageSize: number;
  /** The usual order, and the fields that clients may sort by. The key comes last by itself. */
  readonly order: readonly SortTerm[];
  readonly sorts: readonly string[];
  readonly filters: Readonly<Record<string, FilterDescription>>;
  /** A function of a row and a text, with its schema, that says whether the row matches `?keyword=`. */
  readonly search: string;
  /** Single records that this one refers to: links, and `?fields=author.name`. */
  readonly relations: Readonly<Record<string, RelationDescription>>;
  /** Records that refer to this one: `/articles/{id}/comments`. */
  readonly collections: Readonly<Record<string, CollectionDescription>>;
  /** What else can be done with one: `POST /articles/{id}/publish`. */
  readonly actions: Readonly<Record<string, ActionDescription>>;
  /**
   * What goes too with `DELETE ?cascade=true`, in this order; without it what refers to a row keeps it. The row is locked
   * first, which takes the right to update some column of it.
   */
  readonly cascade: readonly Reference[];
  /** The role of PUT, PATCH and DELETE without credentials; null where they need some. */
  readonly editor: string | null;
  /** Whether `POST` may bring a password, and so make an account. */
  readonly hasAccount: boolean;
};

export type FieldDescription = {
  /** Unless it is called like the field. */
  readonly column?: string;
  /** When clients may give it a value; never, unless it is said. */
  readonly write?: "on create" | "always";
  /** Whether POST and PUT must have it. */
  readonly isRequired?: boolean;
};

export type SortTerm = { readonly field: string; readonly direction: "asc" | "desc" };

/** `?status=DRAFT`; `has` is for lists: `?tag=sql`. `alike` is for texts, and heeds no case. */
export type FilterDescription = {
  readonly field: string;
  readonly operator: "is" | "alike" | "has" | "from" | "before";
  readonly about: string;
};

export type RelationDescription = {
  readonly resource: string;
  /** The field with the key of the other one. */
  readonly field: string;
};

export type CollectionDescription = {
  readonly resource: string;
  /** The field of the other resource that has the key of this one. */
  readonly field: string;
  /** Whether POST to it makes one. */
  readonly isCreatable: boolean;
};

export type ActionDescription = {
  /** A function of the key that returns the row, with its schema: `public.publish_article`. */
  readonly function: string;
  readonly about: string;
};

export type Reference = {
  readonly table: string;
  /** The column with the key of this resource. */
  readonly column: string;
};

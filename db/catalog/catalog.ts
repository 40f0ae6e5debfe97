import pg from "pg";
import type { ConstraintMessages } from "../errors.ts";

/**
 * What the database offers, as one frozen model: the exposed schemas with their tables, relationships and functions.
 * Names are those of the database and are looked up here before they stand in SQL; types are SQL text, ready to use.
 */
export type Catalog = {
  /** Grows by one with each reading. */
  readonly version: number;
  /** The served schemas that exist, in the order of the setting; the first is the default. */
  readonly schemas: ReadonlyMap<string, Schema>;
  /** Types that a request may cast to, by each name they go by: `int4`, `integer`, `article_status` → SQL text. */
  readonly types: ReadonlyMap<string, string>;
  /** The roles of the server, for the question who may do what. */
  readonly roles: ReadonlyMap<string, Role>;
  /** The schema that holds PostGIS; null where it is not installed. */
  readonly postgis: string | null;
  /** Domains that refuse null, as the SQL text that TypeShape.domain has. */
  readonly notNullDomains: ReadonlySet<string>;
  readonly mediaHandlers: readonly MediaHandler[];
  /** Constraints and unique indexes of all tables, served or not: `public.users.users_email_key`. Not those that refuse null. */
  readonly constraints: ReadonlyMap<string, Constraint>;
  /** Their comments, for clients that break one. */
  readonly constraintMessages: ConstraintMessages;
};

/** A rule that a row may break. */
export type Constraint = {
  /** Its comment without smart tags: what the client is told. */
  readonly message: string | null;
  /** The columns that it looks at, or that must be unique; `lower(email)` looks at email. */
  readonly columns: readonly string[];
  /** SQL text of a CHECK; null for other rules, and on tables that no served one is made of. */
  readonly check: string | null;
};

/** `create aggregate lines_of(tags) (…, stype = "text/plain")`: makes what is sent as text/plain of rows of tags. */
export type MediaHandler = {
  /** The name of the domain that it gives, in lower case; any type for one that is named so. */
  readonly mediaType: string;
  /** SQL name of the aggregate. */
  readonly function: string;
  /** Whose rows it takes; null for any. */
  readonly table: TableName | null;
  readonly isBinary: boolean;
};

export type Role = {
  readonly name: string;
  /** Itself and all roles whose rights it has, "public" included. */
  readonly inherits: ReadonlySet<string>;
  readonly isSuperuser: boolean;
  /** `alter role anon set statement_timeout = '3s'` → `[["statement_timeout", "3s"]]` */
  readonly settings: readonly Setting[];
};

export type Setting = readonly [name: string, value: string];

export type Schema = {
  readonly name: string;
  readonly comment: string | null;
  readonly tables: ReadonlyMap<string, Table>;
  /** Overloads stand under one name. */
  readonly functions: ReadonlyMap<string, readonly DatabaseFunction[]>;
  /** Labels in order, by the name of the enum. */
  readonly enums: ReadonlyMap<string, readonly string[]>;
  /** Types made by `create type … as (…)`, by name; rows of tables are no such types. */
  readonly composites: ReadonlyMap<string, ReadonlyMap<string, ResultColumn>>;
};

export type TableKind = "table" | "partitioned table" | "view" | "materialized view" | "foreign table";

/** Anything that has rows. */
export type Table = {
  readonly schema: string;
  readonly name: string;
  readonly kind: TableKind;
  readonly owner: string;
  readonly comment: string | null;
  readonly columns: ReadonlyMap<string, Column>;
  /** Of a view: the key it inherits through its definition. Empty when there is none. */
  readonly primaryKey: readonly string[];
  /** Unique constraints and unique indexes over plain columns, the primary key first. */
  readonly uniqueKeys: readonly (readonly string[])[];
  readonly isInsertable: boolean;
  readonly isUpdatable: boolean;
  readonly isDeletable: boolean;
  /** From this table to others, and to itself, in a stable order. */
  readonly relationships: readonly Relationship[];
  /** Functions of one row of this table that give a value, by name: `full_name(users)`. */
  readonly computedFields: ReadonlyMap<string, ComputedField>;
  /** Grants on the whole table, by grantee. */
  readonly grants: ReadonlyMap<string, ReadonlySet<TablePrivilege>>;
};

export type TablePrivilege = "select" | "insert" | "update" | "delete";

export type Column = {
  readonly name: string;
  /** SQL text with its modifiers: `bigint`, `character varying(20)`, `public.article_status[]`. */
  readonly type: string;
  readonly shape: TypeShape;
  readonly isNullable: boolean;
  /** Has a value when an insert names none: by default, identity or expression. */
  readonly hasDefault: boolean;
  /** SQL text of the default; of an identity `by default` the next value of its sequence. Null for `always`. */
  readonly defaultExpression: string | null;
  /** `always`: no value may be given (identity always, or computed by expression). */
  readonly generated: "always" | "by default" | null;
  readonly maxLength: number | null;
  readonly comment: string | null;
  /** Functions that the domain of this column has casts for; null for every other type. */
  readonly casts: DomainCasts | null;
  /** Grants on this column alone, by grantee. */
  readonly grants: ReadonlyMap<string, ReadonlySet<TablePrivilege>>;
};

/** What a type is made of, domains resolved: enough for JSON Schema and TypeScript. */
export type TypeShape = {
  /** The name in pg_type, of the element for arrays: `int8`, `text`, `article_status`. */
  readonly name: string;
  readonly schema: string;
  readonly category: "base" | "enum" | "composite" | "range" | "pseudo";
  readonly isArray: boolean;
  /** The domain that the type is, as SQL text; null when it is none. */
  readonly domain: string | null;
  /** Labels of an enum, in order. */
  readonly labels: readonly string[];
};

/** SQL names of functions, each cast to or from the column's domain. */
export type DomainCasts = {
  /** domain → json, for output. */ readonly toJson: string | null;
  /** text → domain, for the values of filters. */ readonly fromText: string | null;
  /** json → domain, for bodies. */ readonly fromJson: string | null;
};

export type TableName = { readonly schema: string; readonly name: string };

/** `[["author_id", "id"]]`: a column here and the one over there that it equals. */
export type ColumnPairs = readonly (readonly [from: string, to: string])[];

/** A way from one table to another. `isToOne`: at most one row is there. */
export type Relationship =
  | {
      readonly kind: "many-to-one" | "one-to-one" | "one-to-many";
      readonly isToOne: boolean;
      readonly target: TableName;
      /** The name of the foreign key. */
      readonly constraint: string;
      readonly columns: ColumnPairs;
      /** Whether the foreign key is on this side. */
      readonly isOwner: boolean;
    }
  | {
      readonly kind: "many-to-many";
      readonly isToOne: false;
      readonly target: TableName;
      readonly junction: TableName;
      /** The foreign key of the junction to this table: columns here and there. */
      readonly source: { readonly constraint: string; readonly columns: ColumnPairs };
      /** The foreign key of the junction to the target: columns of the junction and of the target. */
      readonly further: { readonly constraint: string; readonly columns: ColumnPairs };
    }
  | {
      readonly kind: "computed";
      readonly isToOne: boolean;
      readonly target: TableName;
      readonly function: TableName;
    };

export type ComputedField = {
  /** SQL name of the function: `"public"."full_name"`. */
  readonly function: string;
  readonly name: string;
  readonly type: string;
  readonly shape: TypeShape;
  readonly comment: string | null;
};

export type DatabaseFunction = {
  readonly schema: string;
  readonly name: string;
  readonly owner: string;
  readonly comment: string | null;
  readonly arguments: readonly FunctionArgument[];
  readonly returns: FunctionResult;
  readonly volatility: "immutable" | "stable" | "volatile";
  /** `set` clauses that hold for the whole transaction: statement_timeout, default_transaction_isolation … */
  readonly settings: readonly Setting[];
  /** Grantees of EXECUTE, "public" among them where it has it. */
  readonly grantees: ReadonlySet<string>;
};

export type FunctionArgument = {
  /** "" where the function gives none. */
  readonly name: string;
  readonly type: string;
  readonly shape: TypeShape;
  readonly isRequired: boolean;
  readonly isVariadic: boolean;
};

export type FunctionResult =
  | { readonly kind: "void" }
  /** `type` is SQL text; media types are domains named like `application/octet-stream`. */
  | { readonly kind: "scalar"; readonly isSet: boolean; readonly type: string; readonly shape: TypeShape }
  /** Rows of a known table or view. */
  | { readonly kind: "table"; readonly isSet: boolean; readonly table: TableName }
  /** Rows of OUT arguments, of RETURNS TABLE or of a composite type; `columns` by name. */
  | { readonly kind: "composite"; readonly isSet: boolean; readonly columns: ReadonlyMap<string, ResultColumn> }
  /** `returns record` without columns: known when it has run. */
  | { readonly kind: "record"; readonly isSet: boolean };

export type ResultColumn = { readonly name: string; readonly type: string; readonly shape: TypeShape };

/** The table of this name; undefined when its schema is not served or has no such table. */
export const tableOf = (catalog: Catalog, { schema, name }: TableName): Table | undefined =>
  catalog.schemas.get(schema)?.tables.get(name);

/** `{ schema: "public", name: "full_name" }` → `"public"."full_name"` */
export const quoteName = ({ schema, name }: TableName): string =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`;

import { quoteIdentifier } from "../sql.ts";
import type { CallerDependence } from "./caller-dependence.ts";
import type { Code } from "./code.ts";

/** `public.users.users_age_range` → the comment of that constraint. */
export type ConstraintMessages = ReadonlyMap<string, string>;

/**
 * The served part of the database as one immutable model: schemas with their tables, relationships and functions.
 * Names are the database's names and are looked up here before they are used in SQL. Types are SQL text, ready to use.
 */
export type Catalog = {
  /** Increases by one with each new catalog. */
  readonly version: number;
  /** The served schemas, in the order of the setting; the first is the default. */
  readonly schemas: ReadonlyMap<string, Schema>;
  /** Types that a request may cast to, by each of their names: `int4`, `integer`, `post_status` → SQL text. */
  readonly types: ReadonlyMap<string, string>;
  /** The roles of the server, to evaluate privileges. */
  readonly roles: ReadonlyMap<string, Role>;
  /** What transactions must set so that texts are read and written in one way. */
  readonly textSettings: readonly Setting[];
  /** The schema of PostGIS; null when it is not installed. */
  readonly postgis: string | null;
  /** Domains that are not null, as SQL text like `TypeShape.domain`. */
  readonly notNullDomains: ReadonlySet<string>;
  readonly mediaHandlers: readonly MediaHandler[];
  /**
   * Constraints and unique indexes of all tables, served or not, by `public.users.users_email_key`. Without NOT NULL.
   */
  readonly constraints: ReadonlyMap<string, Constraint>;
  /** The messages for clients that violate a constraint: its comment, or what it demands. */
  readonly constraintMessages: ConstraintMessages;
  readonly code: Code;
  /** Which expressions depend on the caller. */
  readonly dependence: CallerDependence;
};

/** A constraint or unique index. */
export type Constraint = {
  /** Its comment without smart tags: the message for the client. */
  readonly message: string | null;
  /** The columns that it uses, including those in expressions: email for `lower(email)`. */
  readonly columns: readonly string[];
  /** SQL text of a CHECK; null for other constraints, and for tables whose columns are not in the catalog. */
  readonly check: string | null;
  /** SQL texts of what must be unique in a table of the catalog, `["lower(email)"]`. Empty for other constraints and partial indexes. */
  readonly keys: readonly string[];
  /** What a foreign key refers to; null for other constraints. */
  readonly references: (TableName & { readonly columns: readonly string[] }) | null;
};

/** `create aggregate lines_of(tags) (…, stype = "text/plain")`: formats rows of tags as text/plain. */
export type MediaHandler = {
  /** The name of the domain that it returns, in lower case. */
  readonly mediaType: string;
  /** SQL name of the aggregate. */
  readonly function: string;
  /** The table whose rows it accepts; null for any table. */
  readonly table: TableName | null;
  readonly isBinary: boolean;
};

export type Role = {
  readonly name: string;
  /** The role, all roles whose privileges it inherits, and "public". */
  readonly inherits: ReadonlySet<string>;
  /** The role, and all roles that it may become with `set role`. */
  readonly mayBecome: ReadonlySet<string>;
  readonly isSuperuser: boolean;
  /** True for superusers too. A member of such a role does not inherit it. */
  readonly bypassesRowSecurity: boolean;
  /** `alter role anon set statement_timeout = '3s'` → `[["statement_timeout", "3s"]]` */
  readonly settings: readonly Setting[];
};

export type Setting = readonly [name: string, value: string];

export type Schema = {
  readonly name: string;
  readonly owner: string;
  /** Grantees of USAGE, possibly "public". */
  readonly usage: ReadonlySet<string>;
  readonly comment: string | null;
  readonly tables: ReadonlyMap<string, Table>;
  /** All overloads, by name. */
  readonly functions: ReadonlyMap<string, readonly DatabaseFunction[]>;
  /** Labels in order, by the name of the enum. */
  readonly enums: ReadonlyMap<string, readonly string[]>;
  /** Types created by `create type … as (…)`, by name; without the row types of tables. */
  readonly composites: ReadonlyMap<string, ReadonlyMap<string, ResultColumn>>;
};

export type TableKind = "table" | "partitioned table" | "view" | "materialized view" | "foreign table";

/** A table, view or foreign table. */
export type Table = {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  readonly kind: TableKind;
  readonly owner: string;
  /** Whether it also has the rows of tables that inherit from it, for which its keys and foreign keys do not hold. */
  readonly isInherited: boolean;
  readonly comment: string | null;
  readonly columns: ReadonlyMap<string, Column>;
  /** For a view: the key that it inherits through its definition. Empty when there is none. */
  readonly primaryKey: readonly string[];
  /** Unique constraints and unique indexes over plain columns, the primary key first. */
  readonly uniqueKeys: readonly (readonly string[])[];
  readonly isInsertable: boolean;
  readonly isUpdatable: boolean;
  readonly isDeletable: boolean;
  /** From this table to other tables and to itself, in a stable order. */
  readonly relationships: readonly Relationship[];
  /** Functions of one row of this table that return a value, by name: `full_name(users)`. */
  readonly computedFields: ReadonlyMap<string, ComputedField>;
  /** Grants on the whole table, by grantee. */
  readonly grants: ReadonlyMap<string, ReadonlySet<TablePrivilege>>;
  readonly rowSecurity: RowSecurity;
};

export type RowSecurity = {
  readonly isEnabled: boolean;
  /** Whether it applies to the owner too. */
  readonly isForced: boolean;
  readonly policies: readonly RowPolicy[];
};

export type PolicyCommand = "all" | TablePrivilege;

/** `create policy … for select using (…)` */
export type RowPolicy = {
  readonly name: string;
  readonly command: PolicyCommand;
  readonly isPermissive: boolean;
  /** The roles that it applies to, possibly "public". */
  readonly roles: ReadonlySet<string>;
  /** SQL text of the condition for rows that exist; null if there is none. All names are qualified. */
  readonly using: string | null;
  /** SQL text of the condition for rows that are written; null if there is none, and USING applies. */
  readonly check: string | null;
  /** Whether both texts could not be read, because another transaction had locked a table that they name. */
  readonly isLocked: boolean;
};

export type TablePrivilege = "select" | "insert" | "update" | "delete";

export type Column = {
  readonly name: string;
  /** Its number in pg_attribute, which it keeps when it is renamed. */
  readonly number: number;
  /** SQL text with its modifiers: `bigint`, `character varying(20)`, `public.post_status[]`. */
  readonly type: string;
  readonly shape: TypeShape;
  readonly isNullable: boolean;
  /** False for a collation in which different texts may be equal. */
  readonly isDeterministic: boolean;
  /** Whether the column gets a value when an insert omits it: from a default, an identity or an expression. */
  readonly hasDefault: boolean;
  /** SQL text of the default; for an identity `by default` the next value of its sequence. Null for `always`. */
  readonly defaultExpression: string | null;
  /** `always`: an insert must omit the column (identity always, or a generated column). */
  readonly generated: "always" | "by default" | null;
  readonly maxLength: number | null;
  readonly comment: string | null;
  /** The cast functions of this column's domain; null for other types. */
  readonly casts: DomainCasts | null;
  /** Grants on this column alone, by grantee. */
  readonly grants: ReadonlyMap<string, ReadonlySet<TablePrivilege>>;
};

/** The structure of a type, with domains resolved: enough for JSON Schema and TypeScript. */
export type TypeShape = {
  /** The name in pg_type, for arrays that of the element: `int8`, `text`, `post_status`. */
  readonly name: string;
  readonly schema: string;
  readonly category: "base" | "enum" | "composite" | "range" | "pseudo";
  readonly isArray: boolean;
  /** The domain as SQL text; null when the type is not a domain. */
  readonly domain: string | null;
  /** Labels of an enum, in order. */
  readonly labels: readonly string[];
};

/** SQL names of functions that cast to or from a domain. */
export type DomainCasts = {
  /** domain → json, for output. */ readonly toJson: string | null;
  /** text → domain, for the values of filters. */ readonly fromText: string | null;
  /** json → domain, for bodies. */ readonly fromJson: string | null;
};

export type TableName = { readonly schema: string; readonly name: string };

/** `[["author_id", "id"]]`: a column of this table and the column of the other table that it equals. */
export type ColumnPairs = readonly (readonly [from: string, to: string])[];

/** A relationship from one table to another. `isToOne`: at most one row matches. */
export type Relationship =
  | {
      readonly kind: "many-to-one" | "one-to-one" | "one-to-many";
      readonly isToOne: boolean;
      readonly target: TableName;
      /** The name of the foreign key. */
      readonly constraint: string;
      readonly columns: ColumnPairs;
      /** Whether this table has the foreign key. */
      readonly isOwner: boolean;
    }
  | {
      readonly kind: "many-to-many";
      readonly isToOne: false;
      readonly target: TableName;
      readonly junction: TableName;
      /** The foreign key of the junction to this table: columns of this table and of the junction. */
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
  readonly isVolatile: boolean;
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
  /** `set` clauses that apply to the whole transaction: statement_timeout, default_transaction_isolation … */
  readonly settings: readonly Setting[];
  /** Grantees of EXECUTE, possibly "public". */
  readonly grantees: ReadonlySet<string>;
};

export type FunctionArgument = {
  /** "" for an unnamed argument. */
  readonly name: string;
  readonly type: string;
  readonly shape: TypeShape;
  readonly isRequired: boolean;
  /** SQL text of the default, if the function is variadic: Postgres takes names for such a function only with all arguments. */
  readonly defaultText: string | null;
  readonly isVariadic: boolean;
};

export type FunctionResult =
  | { readonly kind: "void" }
  /** `type` is SQL text; media types are domains named like `application/octet-stream`. */
  | { readonly kind: "scalar"; readonly isSet: boolean; readonly type: string; readonly shape: TypeShape }
  /** Rows of a known table or view. */
  | { readonly kind: "table"; readonly isSet: boolean; readonly table: TableName }
  /** Rows of OUT arguments, RETURNS TABLE or a composite type; `columns` by name. */
  | { readonly kind: "composite"; readonly isSet: boolean; readonly columns: ReadonlyMap<string, ResultColumn> }
  /** `returns record` without columns: they are known only after execution. */
  | { readonly kind: "record"; readonly isSet: boolean };

export type ResultColumn = { readonly name: string; readonly type: string; readonly shape: TypeShape };

/** The table with this name; undefined when its schema is not served or does not contain it. */
export const tableOf = (catalog: Catalog, { schema, name }: TableName): Table | undefined =>
  catalog.schemas.get(schema)?.tables.get(name);

/** `{ schema: "public", name: "full_name" }` → `"public"."full_name"` */
export const quoteName = ({ schema, name }: TableName): string => `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;

/** `users` → `users`, `My table` → `"My table"`: as a DBA writes it. */
export const quoteIfNeeded = (name: string): string =>
  /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteIdentifier(name);

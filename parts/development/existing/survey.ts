import type { ClientBase } from "pg";
import type { UserIdType } from "../../../config/modules.ts";
import { SQL } from "./survey-queries.ts";

/** What a database has that the service does not know yet. */
export type Survey = {
  readonly version: string;
  /** As it is written in SQL. */
  readonly database: string;
  readonly databaseOwner: string;
  readonly login: Login;
  readonly schemas: readonly Schema[];
  readonly tables: readonly Table[];
  /** Roles of the application that have rights here, and those that the login may become. */
  readonly roles: readonly Role[];
  readonly extensions: readonly Extension[];
  /** What sessions of the owner have from `alter database` or `alter role`: `search_path`, `music, public`. */
  readonly settings: readonly Setting[];
  /** The schemas with the names of those of the service that it did not make. */
  readonly foreignSchemas: readonly string[];
  /** The type of `auth.user_id`, if the database has the modules of the service; null if it has not. */
  readonly installedId: UserIdType | null;
  /** The table in which another tool records migrations: `public._prisma_migrations`; null if there is none. */
  readonly otherTool: string | null;
  readonly isReplica: boolean;
  /** What PostgREST serves, as a role has it: `public, graphql_public`; null if none has it. */
  readonly postgrestSchemas: string | null;
  /** The secret of tokens, which a self-hosted Supabase has in a setting of the database; null if there is none. */
  readonly jwtSecret: string | null;
  /** The login of PostgREST, as it is written in SQL, and the roles that it may become; null if there is none. */
  readonly postgrestLogin: { readonly sql: string; readonly memberOf: readonly string[] } | null;
};

/** The role of the URL. */
export type Login = {
  readonly name: string;
  readonly sql: string;
  readonly isSuperuser: boolean;
  readonly createsRoles: boolean;
  readonly bypassesPolicies: boolean;
  /** Whether it may create schemas. */
  readonly createsSchemas: boolean;
  /** Whether it may make a copy of the database. */
  readonly copiesDatabase: boolean;
  /** The roles of the service that exist, and whether the login may grant them. */
  readonly serviceRoles: readonly {
    readonly name: string;
    readonly isGrantable: boolean;
    readonly bypasses: boolean;
  }[];
};

export type Schema = {
  readonly name: string;
  readonly sql: string;
  /** Whether the login may create objects in it. */
  readonly mayCreate: boolean;
  readonly owner: string;
};

/** A table or view. */
export type Table = {
  readonly schema: string;
  readonly name: string;
  /** With its schema, as it is written in SQL: `public."user"` */
  readonly sql: string;
  readonly isTable: boolean;
  /** Whether the login has the rights of its owner. */
  readonly isOwned: boolean;
  readonly hasPolicies: boolean;
  readonly hasRowSecurity: boolean;
  readonly columns: readonly Column[];
  readonly key: readonly string[];
  /** The tables that its foreign keys refer to, as in `sql`, with a single column. */
  readonly references: readonly { readonly table: string; readonly column: string }[];
  /** An estimate; -1 if it is unknown. */
  readonly rows: number;
  /** The roles, other than the owner, with a right on it or its columns. */
  readonly grantees: readonly string[];
};

export type Column = {
  readonly name: string;
  readonly sql: string;
  /** As it is written in SQL with an empty search path: `character varying(80)`, `public.citext`. */
  readonly type: string;
  /** The type below a domain: `bigint`. */
  readonly base: string;
  readonly isRequired: boolean;
  readonly hasDefault: boolean;
  /** Roles, other than the owner, that may read it. */
  readonly readers: readonly string[];
};

export type Role = {
  readonly name: string;
  readonly sql: string;
  readonly canLogin: boolean;
  readonly bypassesPolicies: boolean;
  readonly inherits: boolean;
  readonly memberOf: readonly string[];
  /** Whether the login of the URL may become it. */
  readonly isMine: boolean;
  /** Whether the login may grant it to others. */
  readonly isGrantable: boolean;
};

export type Setting = { readonly name: string; readonly value: string };

export type Extension = { readonly name: string; readonly schema: string };

/** Reads the catalog in a transaction that can change nothing. */
export async function readSurvey(client: ClientBase): Promise<Survey> {
  await client.query("begin transaction isolation level repeatable read, read only");
  try {
    // Every name is then written with its schema.
    await client.query("select set_config('search_path', '', true), set_config('jit', 'off', true)");
    const rowsOf = async (text: string) => (await client.query(text)).rows;
    const [general] = await rowsOf(SQL.general);
    const [login] = await rowsOf(SQL.login);
    return {
      ...general,
      login: { ...login, serviceRoles: await rowsOf(SQL.serviceRoles) },
      schemas: await rowsOf(SQL.schemas),
      tables: await rowsOf(SQL.tables),
      roles: await rowsOf(SQL.roles),
      extensions: await rowsOf(SQL.extensions),
      settings: await rowsOf(SQL.settings),
    };
  } finally {
    await client.query("rollback");
  }
}

// What tests of applications import as "content-service/test".
import type pg from "pg";
import { afterAll, inject } from "vitest";
import { loadApplication } from "../app/load.ts";
import type { Caller } from "../db/caller.ts";
import type { Database } from "../db/database.ts";
import { type Db, dbOf, type Query, textOf } from "../db/queries.ts";
import { NO_REQUEST } from "../db/transaction/identity.ts";
import { createLog } from "../gate/pipeline/log.ts";
import { type Account, callerOfAccount } from "../identity/account.ts";
import { createTokens } from "../identity/tokens.ts";
import { normalizedEmail } from "../rest-gateway/auth/login-names.ts";
import { hashPassword } from "../rest-gateway/auth/passwords.ts";
import { startService } from "../server.ts";
import { openCore } from "../service/core.ts";
import { withLimits } from "../service/limits.ts";
import { openConfigured } from "../service/open.ts";
import { accessMatrix, type NamedCaller } from "./access-matrix.ts";
import { onTestDatabase } from "./application.ts";
import { copyDatabase, type DatabaseCopy } from "./cluster.ts";

export type { Db, Query } from "../db/queries.ts";

/** A user who can sign in. */
export type User = Pick<Account, "id" | "username" | "name" | "role" | "permissions" | "epoch" | "claims">;

/** What a new user has. The defaults are a name, an e-mail, the role `authenticated` and the password of `PASSWORD`. */
export type UserFields = {
  readonly name?: string;
  readonly email?: string;
  readonly username?: string;
  readonly role?: string;
  readonly password?: string;
  /** Further fields of a sign-up, for the hooks of the application. */
  readonly [field: string]: unknown;
};

/** Whose rights apply. An object with claims is a caller with a token of another issuer. */
export type Who = User | "anon" | "service_role" | Pick<Caller, "role" | "claims">;

/** A copy of the migrated and seeded database of the application. */
export type TestDatabase = {
  /** The database as its owner, whom policies do not restrict. */
  readonly owner: Db;
  /** A new user, with an account, whatever `SIGNUP` is. */
  user(fields?: UserFields): Promise<User>;
  /** The user of an account that exists, such as one of db/seed.sql, by username or e-mail. */
  account(login: string): Promise<User>;
  /** The database with the rights of a caller. Errors are those of PostgreSQL: `{ code: "42501" }`. */
  as(who: Who): Db;
  /** An access token, for the header Authorization. */
  token(user: User): string;
  /**
   * Starts the service with the application on a free port. It is stopped after the test file. With supertest:
   *
   *   const { body } = await request(app.url).post("/notes").send({ text: "Call Ada" }).expect(201);
   */
  start(): Promise<{ readonly url: string }>;
  /** What anonymous callers, the accounts of the database and service_role may do with each table, as Markdown. */
  accessMatrix(options?: AccessMatrixOptions): Promise<string>;
};

export type AccessMatrixOptions = {
  /** The names of tables, such as `public.notes`; the default is all tables of the API. */
  readonly tables?: readonly string[];
  /** Other callers, by a name for people. */
  readonly callers?: Readonly<Record<string, Who>>;
};

/** The password of users for whom a test names none. */
export const PASSWORD = "Correct-Horse-7!";

/** Costs a thirtieth of what the service spends. */
const hashCheaply = (password: string) => hashPassword(password, { memoryCost: 1024, timeCost: 1, parallelism: 1 });

/** A database for the test file, which is dropped after it. Call it at the top of the file: `const db = await testDatabase();` */
export async function testDatabase(): Promise<TestDatabase> {
  const { clusterUrl, template, folder } = inject("contentService") ?? refuse();
  const definition = await loadApplication(folder);
  const copy = await copyDatabase(clusterUrl, template);
  const configured = await onTestDatabase(definition, copy.url);
  const kit = new TestKit(copy, configured);
  afterAll(() => kit.drop());
  return kit;
}

function refuse(): never {
  throw new Error(
    'testDatabase() needs the server of the run: add globalSetup: ["content-service/test/setup"] to vitest.config.ts',
  );
}

class TestKit implements TestDatabase {
  readonly owner: Db;
  readonly #copy: DatabaseCopy;
  readonly #configured: Awaited<ReturnType<typeof onTestDatabase>>;
  readonly #tokens;
  #database: Promise<Database> | undefined;
  #service: ReturnType<typeof startService> | undefined;
  #lastOfOwner: Promise<unknown> = Promise.resolve();
  #users = 0;

  constructor(copy: DatabaseCopy, configured: Awaited<ReturnType<typeof onTestDatabase>>) {
    this.#copy = copy;
    this.#configured = configured;
    this.owner = ownerDb(this.#asOwner);
    this.#tokens = createTokens(configured.config, configured.config.jwtSecret);
  }

  async user({ role = "authenticated", username, password = PASSWORD, ...fields }: UserFields = {}): Promise<User> {
    this.#users++;
    const { name = `User ${this.#users}`, email = `user${this.#users}@example.com`, ...more } = fields;
    const stored = { email: normalizedEmail(email) };
    const values = [...[JSON.stringify({ ...more, name, ...stored }), username ?? null], await hashCheaply(password)];
    const [added] = await this.owner.query<{ id: string }>(
      "select auth_api.register($1, $2, $3, by_operator => true)::text as id",
      values,
    );
    if (role !== "authenticated")
      await this.owner.query("update auth_private.accounts set role = $2 where user_id::text = $1", [added!.id, role]);
    return this.account(username ?? email);
  }

  async account(login: string): Promise<User> {
    const [row] = await this.owner.query<{ account: Account | null }>("select auth_api.find_account($1) as account", [
      login,
    ]);
    if (row!.account === null) throw new Error(`no account has the username or e-mail ${login}`);
    return userOf(row!.account);
  }

  as(who: Who): Db {
    const caller = this.#callerOf(who);
    return dbOf(async (statements) => {
      this.#database ??= this.#open();
      const database = await this.#database;
      return database.forRole(caller.role).run({ caller, request: NO_REQUEST }, statements);
    });
  }

  token(user: User): string {
    const pair = { signedInAt: Date.now(), refreshToken: this.#tokens.issueRefresh(user.id) };
    return this.#tokens.issuePair(user, pair).accessToken;
  }

  async start(): Promise<{ readonly url: string }> {
    const { config, application } = this.#configured;
    this.#service ??= startService(config, createLog(config.logLevel), { application, hashPassword: hashCheaply });
    const { url } = await this.#service;
    return { url };
  }

  async accessMatrix({ tables, callers }: AccessMatrixOptions = {}): Promise<string> {
    const chosen = Object.entries(callers ?? (await this.#callers()));
    const named = chosen.map(([name, who]): NamedCaller => ({ name, ...this.#callerOf(who) }));
    const { dbSchemas: schemas, dbExtraSearchPath: searchPath } = this.#configured.config;
    return this.#asOwner((client) => accessMatrix(client, { schemas, searchPath, callers: named, tables }));
  }

  /** Stops the service and drops the database. */
  async drop(): Promise<void> {
    await (await this.#service)?.stop();
    await (await this.#database)?.close();
    await this.#copy.drop();
  }

  /** One after the other: a batch is a transaction of the one connection. */
  #asOwner: AsOwner = (work) => {
    const result = this.#lastOfOwner.then(() => work(this.#copy.owner));
    this.#lastOfOwner = result.catch(() => {});
    return result;
  };

  async #open(): Promise<Database> {
    const { config, application } = this.#configured;
    const { logins } = await openConfigured({ config, application }, createLog(config.logLevel));
    return (await openCore(withLimits(config), "database", { logins })).database;
  }

  /** Some accounts of each role. */
  async #callers(): Promise<Readonly<Record<string, Who>>> {
    const rows = await this.owner.query<{ account: Account }>(ACCOUNTS);
    if (rows.length < 2)
      throw new Error(
        "the matrix of rights needs two accounts or more, with rows of their own: add them to db/seed.sql, or before the call with user()",
      );
    const users = rows.map(({ account }) => [account.username, userOf(account)] as const);
    return { anon: "anon", ...Object.fromEntries(users), service_role: "service_role" };
  }

  #callerOf(who: Who): Caller {
    const rest = { expiresAt: null, refused: null };
    if (who === "anon") return { role: this.#configured.config.dbAnonRole, claims: {}, ...rest };
    if (who === "service_role") return { role: who, claims: { role: who }, ...rest };
    return "epoch" in who ? callerOfAccount(who, Date.now()) : { ...who, ...rest };
  }
}

const userOf = ({ id, username, name, role, permissions, epoch, claims }: Account): User => ({
  ...{ id, username, name, role, permissions, epoch, claims },
});

/** The first accounts of each role by login: their ids, and the order in which they were added, may differ between runs. */
const ACCOUNTS = `
  select auth_api.account_of(a.user_id) as account
  from (
    select s.user_id, l.login, row_number() over (partition by s.role order by l.login) as number
    from auth_private.accounts as s
    join auth_private.login_emails as e on e.user_id = s.user_id and e.released_at is null
    cross join lateral (select coalesce(s.username, e.email) collate "C" as login) as l
    where s.disabled_at is null
  ) as a
  where a.number <= 4
  order by a.login`;

type AsOwner = <T>(work: (client: pg.Client) => Promise<T>) => Promise<T>;

function ownerDb(asOwner: AsOwner): Db {
  const written = ({ text, values = [] }: Query) => ({ text, values: values.map(textOf) });
  return {
    query: async <Row>(text: string, values: readonly unknown[] = []) =>
      (await asOwner((client) => client.query(written({ text, values })))).rows as Row[],
    batch: (queries) =>
      asOwner(async (client) => {
        await client.query("begin");
        try {
          const results: Record<string, unknown>[][] = [];
          for (const query of queries) results.push((await client.query(written(query))).rows);
          await client.query("commit");
          return results;
        } catch (error) {
          await client.query("rollback");
          throw error;
        }
      }),
  };
}

import { randomBytes } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type pg from "pg";
import { beforeAll, onTestFinished } from "vitest";
import { Admission } from "../../db/admission/admission.ts";
import { ByteBudget } from "../../db/admission/byte-budget.ts";
import { Code } from "../../db/catalog/code.ts";
import { type Logins, provisionLogins } from "../../db/cluster/provision.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { PoolOptions } from "../../db/transaction/pool.ts";
import {
  type RunOptions,
  type Statement,
  type TransactionOptions,
  Transactions,
} from "../../db/transaction/transaction.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";

type Values = Statement["values"];
type Options = Partial<Omit<TransactionOptions, "pool">> & { pool?: PoolOptions };

/** Identities of each kind for `Transactions`. */
export function identityOf(role: string, id?: number): Identity {
  const caller = { role, claims: id === undefined ? {} : { sub: String(id) }, expiresAt: null, refused: null };
  return { caller, request: { method: "GET", path: "/", headers: "{}", cookies: "{}" } };
}

/** For `follow`: no statement counts as code. */
export const NO_CODE = new Code([], false);

export const anon = identityOf("anon");
export const ada = identityOf("authenticated", 1);
export const bob = identityOf("authenticated", 2);

/** Admits every client to all slots. */
export const admissionTo = (slots: number, timeout = 60_000): Admission =>
  new Admission({ slots, share: 100, timeout, queue: 0, budget: new ByteBudget({ total: 0, perAddress: 0 }) });

/** A database for the test file, with login roles, and `Transactions` on the login `data` for each test. */
export class TransactionsDatabase {
  readonly #database: TestDatabase;
  readonly logins: Logins;

  constructor(database: TestDatabase, logins: Logins) {
    this.#database = database;
    this.logins = logins;
  }

  get owner(): pg.Client {
    return this.#database.owner;
  }

  /** The first column of the owner's query: `values("select id from users")` → `[1, 2, 3, 4]`. */
  async values(text: string, ...values: unknown[]): Promise<any[]> {
    return (await this.owner.query({ text, values, rowMode: "array" })).rows.map(([value]) => value);
  }

  /** With one connection, unless `pool.max` is set; closed at the end of the test. */
  open({ pool, ...options }: Options = {}): TestTransactions {
    const application = `test ${randomBytes(4).toString("hex")}`;
    const errors: Error[] = [];
    const transactions = new Transactions({
      pool: { connectionString: this.logins.data, max: 1, application_name: application, ...pool },
      statementTimeoutOf: () => 10_000,
      maxPrepared: 100,
      admission: admissionTo(pool?.max ?? 1, pool?.connectionTimeoutMillis),
      onConnectionError: (error) => errors.push(error),
      ...options,
    });
    onTestFinished(() => transactions.close());
    return new TestTransactions(this, transactions, application, errors);
  }

  async drop(): Promise<void> {
    const { owner, name } = this.#database;
    for (const kind of Object.keys(this.logins)) {
      await owner.query(`drop owned by ${name}_${kind}`);
      await owner.query(`drop role ${name}_${kind}`);
    }
    await this.#database.drop();
  }
}

/** `Transactions` with text values and text results. */
export class TestTransactions {
  readonly transactions: Transactions;
  /** The errors that `onConnectionError` has received. */
  readonly errors: readonly Error[];
  readonly #database: TransactionsDatabase;
  readonly #application: string;

  constructor(database: TransactionsDatabase, transactions: Transactions, application: string, errors: Error[]) {
    this.#database = database;
    this.transactions = transactions;
    this.#application = application;
    this.errors = errors;
  }

  /** Runs the statements, each a text or `[text, …values]`; returns the rows of each. */
  async run(
    identity: Identity,
    statements: readonly (string | readonly [string, ...Values])[],
    options?: RunOptions,
  ): Promise<(string | null)[][][]> {
    const written = statements.map((statement) => {
      const [text, ...values] = typeof statement === "string" ? [statement] : statement;
      return { text, values };
    });
    const results = await this.transactions.run(identity, written, options);
    return results.map(({ rows }) => rows.map((row) => row.map((field) => field && String(field))));
  }

  /** The first row of one statement: `row(ada, "select $1::int + 1", "1")` → `["2"]`. */
  async row(identity: Identity, text: string, ...values: Values): Promise<(string | null)[]> {
    return (await this.run(identity, [[text, ...values]]))[0]![0]!;
  }

  /** The pids of its server processes. */
  pids(): Promise<number[]> {
    return this.#database.values("select pid from pg_stat_activity where application_name = $1", this.#application);
  }

  /** The states of its server processes: `idle`, `active`, `idle in transaction (aborted)`. */
  states(): Promise<string[]> {
    return this.#database.values("select state from pg_stat_activity where application_name = $1", this.#application);
  }

  /** Resolves when the server is executing `pg_sleep`, so that the statement has its snapshot. */
  async sleeping(): Promise<void> {
    const text = "select pid from pg_stat_activity where application_name = $1 and wait_event = 'PgSleep'";
    while ((await this.#database.values(text, this.#application)).length === 0) await setTimeout(5);
  }
}

/**
 * `const database = useTransactionsDatabase("create table …")` at the top of a test file; after beforeAll,
 * `database()` returns it.
 */
export function useTransactionsDatabase(schema = ""): () => TransactionsDatabase {
  let database: TransactionsDatabase;
  beforeAll(async () => {
    const created = await createTestDatabase();
    await created.owner.query(schema);
    const logins = await provisionLogins(created.owner, created.url, "a secret for the tests of transactions");
    database = new TransactionsDatabase(created, logins);
    return () => database.drop();
  });
  return () => database;
}

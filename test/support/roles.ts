import type pg from "pg";
import { beforeAll } from "vitest";
import { createTestDatabase, type TestDatabase } from "./database.ts";

type Row = Readonly<Record<string, any>>;
type Outcome = number | string;

/**
 * A database for the test file, and a function that runs a test in a transaction of the owner that is rolled back.
 *
 *   const inTransaction = useTransactions();
 *   test("…", () => inTransaction(async (db) => { … }));
 */
export function useTransactions(): (body: (db: TestTransaction) => Promise<void>) => Promise<void> {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase();
    database.owner.setTypeParser(INT8, Number);
    return () => database.drop();
  });
  return async (body) => {
    await database.owner.query("begin");
    try {
      await body(new TestTransaction(database.owner));
    } finally {
      await database.owner.query("rollback");
    }
  };
}

const INT8 = 20;

/** A caller that runs SQL in the test's transaction. A refused statement is rolled back and does not end it. */
export class TestCaller {
  readonly #client: pg.Client;
  readonly #role: string;
  readonly #claims: Row;

  constructor(client: pg.Client, role: string, claims: Row) {
    this.#client = client;
    this.#role = role;
    this.#claims = claims;
  }

  /** `rows("select id from users where age > $1", 40)` → `[{ id: 2 }]` */
  async rows(text: string, ...values: unknown[]): Promise<Row[]> {
    return (await this.#run(text, values, "release savepoint call")).rows;
  }

  /** The first row. */
  async row(text: string, ...values: unknown[]): Promise<Row> {
    return (await this.rows(text, ...values))[0]!;
  }

  /** The result of the function as JSON: `call("publish_article", 1)` → `{ id: 1, title: …, status: "PUBLISHED" }`. */
  async call(name: string, ...values: unknown[]): Promise<any> {
    return (await this.callAll(name, ...values))[0];
  }

  /** All rows of a function that returns a set. */
  async callAll(name: string, ...values: unknown[]): Promise<any[]> {
    const parameters = values.map((_, i) => `$${i + 1}`).join(", ");
    const rows = await this.rows(`select to_jsonb(result) as result from ${name}(${parameters}) as result`, ...values);
    return rows.map((row) => row.result);
  }

  /** The row count of the statement, or its SQLSTATE when it is refused; rolled back in both cases. */
  async outcome(text: string, ...values: unknown[]): Promise<Outcome> {
    try {
      return (await this.#run(text, values, "rollback to savepoint call")).rowCount!;
    } catch (error) {
      return (error as pg.DatabaseError).code ?? String(error);
    }
  }

  async #run(text: string, values: unknown[], end: string): Promise<pg.QueryResult> {
    await this.#client.query("savepoint call");
    try {
      await this.#client.query("select set_config('role', $1, true), set_config('request.jwt.claims', $2, true)", [
        this.#role,
        JSON.stringify(this.#claims),
      ]);
      const result = await this.#client.query(text, values);
      await this.#client.query(`reset role; ${end}`);
      return result;
    } catch (error) {
      await this.#client.query("rollback to savepoint call");
      throw error;
    }
  }
}

/** The transaction of one test: creates rows as the owner, and callers with fewer privileges. */
export class TestTransaction {
  readonly owner: TestCaller;
  readonly anon: TestCaller;
  /** A caller without credentials at /users with USERS_WRITE=open. */
  readonly editor: TestCaller;
  readonly service: TestCaller;
  readonly client: pg.Client;

  constructor(client: pg.Client) {
    this.client = client;
    this.owner = new TestCaller(client, "none", {});
    this.anon = new TestCaller(client, "anon", { role: "anon" });
    this.editor = new TestCaller(client, "users_editor", { role: "users_editor" });
    this.service = new TestCaller(client, "service_role", { role: "service_role" });
  }

  /** The signed-in user, with a recent sign-in, or by a key if `signedInAt` is null; without a user, a token without a subject. */
  as(user: Row | null, role = "authenticated", signedInAt: number | null = Date.now()): TestCaller {
    const signIn = signedInAt === null ? {} : { auth_time: Math.floor(signedInAt / 1000) };
    return new TestCaller(this.client, role, user ? { role, sub: String(user.id), ...signIn } : { role });
  }

  /** One caller of each kind, for `outcomes`: `self` owns the rows in question. */
  async everyone(self: Row): Promise<Record<string, TestCaller>> {
    const [stranger, admin] = await this.users("Stranger", "Admin");
    return {
      anon: this.anon,
      stranger: this.as(stranger!),
      self: this.as(self),
      admin: this.as(admin!, "admin"),
      service: this.service,
    };
  }

  /** `users("Ada", "Bob")` → their rows; the e-mail of Ada is ada@test.example. */
  async users(...names: string[]): Promise<Row[]> {
    const users: Row[] = [];
    for (const name of names) {
      const email = `${name.toLowerCase()}@test.example`;
      users.push(await this.owner.row("insert into users (name, email) values ($1, $2) returning *", name, email));
    }
    return users;
  }

  /** The user can sign in with the e-mail, but has no known password. */
  async addAccount({ id }: Row): Promise<void> {
    const text = "select auth.add_account(id, name, email, null, '$argon2id$') from users where id = $1";
    await this.owner.rows(text, id);
  }

  async article(given: {
    author: Row;
    title?: string;
    content?: string;
    status?: string;
    tags?: string[];
  }): Promise<Row> {
    const { author, title = "A title", content = "Some content.", status = "DRAFT", tags = [] } = given;
    const columns = "author_id, title, content, status, tags";
    const text = `insert into articles (${columns}) values ($1, $2, $3, $4, $5) returning *`;
    return this.owner.row(text, author.id, title, content, status, tags);
  }

  async comment({ article, author }: { article: Row; author: Row }): Promise<Row> {
    const text = "insert into comments (article_id, author_id, content) values ($1, $2, 'A comment.') returning *";
    return this.owner.row(text, article.id, author.id);
  }
}

/**
 * The outcome of one statement for each caller, from the same state:
 *
 *   await outcomes(await db.everyone(ada), "delete from users where id = $1", ada.id)
 *   // { anon: "42501", stranger: 0, self: 1, admin: 1, service: 1 }
 */
export async function outcomes(
  callers: Readonly<Record<string, TestCaller>>,
  text: string,
  ...values: unknown[]
): Promise<Record<string, Outcome>> {
  const result: Record<string, Outcome> = {};
  for (const [name, caller] of Object.entries(callers)) result[name] = await caller.outcome(text, ...values);
  return result;
}

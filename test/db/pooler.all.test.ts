import { afterAll, beforeAll, expect, test } from "vitest";
import { provisionLogins } from "../../db/cluster/provision.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { hasPgBouncer, type Pooler, startPooler } from "../support/pooler.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";

let database: TestDatabase;
let pooler: Pooler;
let service: TestService;
beforeAll(async () => {
  if (!hasPgBouncer) return;
  database = await createTestDatabase();
  const logins = await provisionLogins(database.owner, database.url, JWT_SECRET);
  pooler = await startPooler([database.url, ...Object.values(logins)]);
  service = await startTestService(
    {
      DATABASE_URL: pooler.pooled(database.url),
      DATABASE_DIRECT_URL: database.url,
      DB_PREPARED_STATEMENTS: "0",
      TASK_CONCURRENCY: "2",
    },
    database,
  );
});
afterAll(async () => {
  await service?.stop();
  await pooler?.stop();
});

test.skipIf(!hasPgBouncer)(
  "behind a pooler in transaction mode, with more callers than server connections, each has its own identity",
  async () => {
    const callers = ["ada", "bob", "admin"] as const;
    const names = { ada: "Ada Lovelace", bob: "Bob Kahn", admin: "Administrator" };
    const answers = await Promise.all(
      Array.from({ length: 60 }, async (_, i) => {
        const caller = callers[i % 3]!;
        const { data } = await service.gql("{ me { name } articles(first: 2) { totalCount } }", { as: caller });
        return [data.me.name === names[caller], data.articles.totalCount];
      }),
    );
    expect(new Set(answers.map(String))).toEqual(new Set(["true,4"]));
  },
);

test.skipIf(!hasPgBouncer)("behind a pooler a failed request has no effect on the next one", async () => {
  const failed = await service.gql(
    '{ search(keyword: "x") { summary(length: -1) } articles { totalCount } users { avatar(size: -1) } }',
  );
  expect(failed.errors).not.toHaveLength(0);
  for (let i = 0; i < 6; i++)
    expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(4);
});

test.skipIf(!hasPgBouncer)("behind a pooler a write is committed and announced", async () => {
  const mutation = `mutation { createArticle(input: { title: "Through the pool", content: "It arrives." }) { success } }`;
  expect((await service.gql(mutation, { as: "ada" })).data.createArticle.success).toBe(true);
  const { rows } = await database.owner.query("select count(*)::int from articles where title = 'Through the pool'");
  expect(rows).toEqual([{ count: 1 }]);
});

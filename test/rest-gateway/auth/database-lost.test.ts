import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { POLL } from "../../support/command.ts";
import { startTestService, type TestService } from "../../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(() => service.stop());

test.each([
  ["/auth/v1/token?grant_type=password", { email: "ada@example.com", password: "Correct-Horse-7!" }],
  ["/auth/login", { username: "ada", password: "Correct-Horse-7!" }],
])(
  "a sign-in at %s whose connection the database ends in the middle of a query is 503 with Retry-After",
  async (path, body) => {
    const { owner, name } = service.database;
    await owner.query("begin; lock table auth_private.accounts in access exclusive mode");
    const answered = fetch(`${service.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const WAITING = `select pg_terminate_backend(pid) from pg_stat_activity
    where datname = '${name}' and wait_event_type = 'Lock' and backend_type = 'client backend'`;
    await vi.waitUntil(async () => (await owner.query(WAITING)).rows.length > 0, POLL);
    const response = await answered;
    await owner.query("rollback");
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
    expect(await response.text()).toContain("the database is not available; try again");
  },
);

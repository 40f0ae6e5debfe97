import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { startMailServer } from "../support/mail-server.ts";

const server = await startMailServer();
// The second sign-up waits as long as a busy machine needs.
const client = useService({ ...server.settings, EMAIL_CONFIRM: "required", DB_STATEMENT_TIMEOUT: "60000" });
const PASSWORD = "Correct-Horse-7!";

test.each([
  ["/auth/register", (email: string) => ({ name: "Ivy", email, password: PASSWORD }), 202],
  ["/auth/v1/signup", (email: string) => ({ email, password: PASSWORD }), 200],
] as const)(
  "a sign-up at %s that waits for another one with the same e-mail does not tell that it was second",
  async (path, body, status) => {
    const email = `ivy-${status}@test.example`;
    const { owner, url } = client.service().database;
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    onTestFinished(() => other.end());
    await other.query("begin");
    await other.query("select auth_api.register($1, null, $2)", [
      JSON.stringify({ name: "Ivy", email }),
      "$argon2id$v=19$m=1024,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
    ]);
    const waiting = sendJson(client, path, body(email));
    // The worker of the tasks may wait for the same transaction: the first registration has added a job.
    const blocked = `select count(*)::int as blocked from pg_locks join pg_stat_activity using (pid)
    where not granted and datname = current_database() and query like '%auth_api.register%'`;
    await expect.poll(async () => (await owner.query(blocked)).rows[0].blocked).toBe(1);
    await other.query("commit");
    expect((await waiting).status).toBe(status);
    const subjects = [await server.next(email), await server.next(email)].map(({ subject }) => subject).sort();
    expect(subjects).toEqual(["Confirm your e-mail", "You have an account already"]);
    expect(await client.sql("select from auth_private.login_emails where email = $1", email)).toHaveLength(1);
  },
);

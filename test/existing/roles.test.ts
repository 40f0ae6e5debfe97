import jwt from "jsonwebtoken";
import pino from "pino";
import { expect, test } from "vitest";
import { startTrackit } from "./trackit.ts";

test("the log names the grant for a token whose role the login may not become, and the client learns nothing of it", async () => {
  const logged: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line).msg) });
  const trackit = await startTrackit({}, log);
  try {
    const [support, login] = [trackit.role("support"), trackit.role("api")];
    await trackit.change("revoke trackit_support from trackit_api");
    const response = await fetch(`${trackit.url}/rest/v1/tasks`, {
      headers: { authorization: `Bearer ${trackit.token(1, "support")}` },
    });
    expect([response.status, await response.text()]).toEqual([expect.any(Number), expect.not.stringContaining(login)]);
    await expect
      .poll(() => logged)
      .toContainEqual(
        expect.stringContaining(
          `the login ${login} may not become ${support}, which a token names: it is not a member of it; `,
        ),
      );
  } finally {
    await trackit.stop();
  }
});

test("the claims of Authorization win over those of a key, also for the same role and without sub", async () => {
  const trackit = await startTrackit({});
  try {
    await trackit.change(
      "create function team() returns text language sql stable as $$ select current_setting('request.jwt.claims')::json ->> 'team' $$",
    );
    for (const name of ["anon", "user"] as const) {
      const [apikey, token] = [{}, { team: "red" }].map((claims) =>
        jwt.sign({ role: trackit.role(name), ...claims }, trackit.secret),
      );
      const headers = { apikey: apikey!, authorization: `Bearer ${token}` };
      await expect.poll(async () => (await fetch(`${trackit.url}/rest/v1/rpc/team`, { headers })).json()).toBe("red");
    }
  } finally {
    await trackit.stop();
  }
});

test("with DB_ANON_ROLE=none, callers without a token are refused on each interface, and others are served", async () => {
  const trackit = await startTrackit({ DB_ANON_ROLE: "none" });
  try {
    const refused = await trackit.rest("plans?select=code");
    expect([refused.status, refused.json.code]).toEqual([401, "PGRST302"]);
    const { errors } = await trackit.gql("{ plans { totalCount } }");
    expect(errors![0]!.extensions.code).toBe("AUTH_REQUIRED");
    expect((await trackit.rest("plans?select=code", { as: 1 })).status).toBe(200);
    expect((await trackit.gql("{ plans { totalCount } }", { as: 1 })).errors).toBeUndefined();
  } finally {
    await trackit.stop();
  }
});

import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { JWT_SECRET } from "../../support/service.ts";

/** A token that is good in every way, and names the role of editors of users. */
const TOKEN = jwt.sign({ role: "users_editor", type: "access", name: "Eve" }, JWT_SECRET, {
  algorithm: "HS256",
  issuer: "content-service",
  subject: "1",
  expiresIn: 600,
});

const CHANGE = { method: "PATCH", body: '{"name":"Eve"}' };

describe("with USERS_WRITE=owner", () => {
  const { service, send, sql, gql } = useService({ USERS_WRITE: "owner" });

  const headers = (more: Readonly<Record<string, string>>) => ({
    "content-type": "application/json",
    apikey: service().service.tokens.issueKey("anon"),
    ...more,
  });

  test.each([
    ["a token that names it", { authorization: `Bearer ${TOKEN}` }],
    ["a token as key", { apikey: TOKEN }],
    ["headers that name it", { role: "users_editor", "x-role": "users_editor", prefer: "role=users_editor" }],
    ["a setting of a header", { "request.jwt.claims": '{"role":"users_editor"}' }],
  ])("no caller becomes an editor of users by %s", async (_what, more) => {
    const before = await sql("select * from users order by id");
    for (const sent of [CHANGE, { method: "DELETE" }]) {
      const { status } = await send("/rest/v1/users?id=eq.4", { ...sent, headers: headers(more) });
      expect([401, 403]).toContain(status);
    }
    expect(await sql("select * from users order by id")).toEqual(before);
  });

  test("no token with that role can read", async () => {
    const { status } = await send("/rest/v1/users", { headers: headers({ authorization: `Bearer ${TOKEN}` }) });
    expect(status).toBe(401);
    const query = "{ me { id } users { id } }";
    const { data } = await gql(query, { headers: { authorization: `Bearer ${TOKEN}` } });
    expect(data).toEqual((await gql(query)).data);
  });

  test("the service's login cannot become an editor of users", async () => {
    const [member] = await sql(
      "select pg_has_role($1, 'users_editor', 'member') as is",
      `${service().database.name}_data`,
    );
    expect(member).toEqual({ is: false });
  });
});

describe("with USERS_WRITE=open", () => {
  const { service, sql } = useService({ USERS_WRITE: "open" });

  test("only the service's login can become an editor of users", async () => {
    const text = `select right(rolname, -length($1) - 1) as kind from pg_roles
      where rolname like $1 || '\\_%' and pg_has_role(oid, 'users_editor', 'member')`;
    expect(await sql(text, service().database.name)).toEqual([{ kind: "data" }]);
  });
});

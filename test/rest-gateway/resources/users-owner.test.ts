import { describe, expect, test } from "vitest";
import { type ApiSent, type ResourceClient, useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, userMaker } from "./users.ts";

/** The caller; anonymous sends no credentials. */
const as = (who: string): ApiSent => (who === "anonymous" ? {} : { as: who as NonNullable<ApiSent["as"]> });

const LOGIN = [401, "AUTH_REQUIRED", "login required"];
const NOT_YOURS = [403, "PERMISSION_DENIED", "you may not change this user"];
const NOT_FOUND = [404, "USER_NOT_FOUND", "there is no user with this id"];
const DONE = [200, undefined, undefined];

describe("USERS_WRITE=open", () => {
  const client = useResources({ USERS_WRITE: "open" });
  mayWrite(client, [
    // who, user 1 (ada), an unknown id
    ["anonymous", DONE, NOT_FOUND],
    ["ada", DONE, NOT_FOUND],
    ["bob", NOT_YOURS, NOT_FOUND],
    ["admin", DONE, NOT_FOUND],
    ["service", DONE, NOT_FOUND],
  ]);
});

describe("USERS_WRITE=owner", () => {
  const client = useResources({ USERS_WRITE: "owner" });
  mayWrite(client, [
    ["anonymous", LOGIN, LOGIN],
    ["ada", DONE, NOT_FOUND],
    ["bob", NOT_YOURS, NOT_FOUND],
    ["admin", DONE, NOT_FOUND],
    ["service", DONE, NOT_FOUND],
  ]);

  test("401 has WWW-Authenticate and precedes the conflict of a taken e-mail", async () => {
    const { status, headers } = await client.api("PATCH /users/1", { body: { email: "bob@example.com" } });
    expect([status, headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    expect(await client.failure("PATCH /users/1", { body: { email: "bob@example.com" }, as: "bob" })).toEqual(
      NOT_YOURS,
    );
  });
});

function mayWrite(
  client: ResourceClient,
  rows: readonly (readonly [who: string, ofAda: readonly unknown[], ofUnknown: readonly unknown[]])[],
): void {
  const { api, failure } = client;
  const ADA = { name: "Ada Lovelace", email: "ada@example.com", age: 36 };

  test.each(rows)("%s has the expected rights to change users", async (who, ofAda, ofUnknown) => {
    const before = await allUsers(client);
    expect(await failure("PATCH /users/1", { ...as(who), body: ADA })).toEqual(ofAda);
    expect(await failure("PUT /users/1", { ...as(who), body: ADA })).toEqual(ofAda);
    expect(await failure("PATCH /users/999", { ...as(who), body: ADA })).toEqual(ofUnknown);
    expect(await failure("PUT /users/999", { ...as(who), body: { ...ADA, email: newEmail() } })).toEqual(ofUnknown);
    if (ofAda !== DONE) expect(await allUsers(client)).toBe(before);
  });

  test.each(rows.filter(([who]) => who !== "ada"))(
    "%s has the expected rights to delete users",
    async (who, ofAda, ofUnknown) => {
      const { id } = await userMaker(client)();
      const gone = ofAda === DONE ? 204 : ofAda[0];
      expect((await api(`DELETE /users/${id}`, as(who))).status).toBe(gone);
      expect((await api(`/users/${id}`)).status).toBe(gone === 204 ? 404 : 200);
      expect(await failure("DELETE /users/999", as(who))).toEqual(ofUnknown);
    },
  );

  test("a user may delete their own account", async () => {
    const password = "Correct-Horse-7!";
    const made = await userMaker(client)({ password });
    const login = await api("POST /auth/login", { body: { username: made.email, password } });
    const authorization = `Bearer ${login.json.accessToken}`;
    expect((await api(`DELETE /users/${made.id}`, { headers: { authorization } })).status).toBe(204);
    expect((await api("POST /auth/login", { body: { username: made.email, password } })).status).toBe(401);
  });

  test.each(rows)("%s reads users and creates one", async (who, ofAda) => {
    expect((await api("/users", as(who))).status).toBe(200);
    expect((await api("/users/1", as(who))).status).toBe(200);
    expect((await api("POST /users", { ...as(who), body: { name: "Grace", email: newEmail() } })).status).toBe(201);
    const several = [1, 2].map(() => ({ name: "Grace", email: newEmail() }));
    const status = ofAda === LOGIN ? 401 : 201;
    expect((await api("POST /users", { ...as(who), body: several })).status).toBe(status);
  });
}

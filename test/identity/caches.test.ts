import { expect, test } from "vitest";
import { useResources } from "../support/resource-client.ts";
import { cookieOf, makeSession } from "./support.ts";

const { api, service } = useResources({ GRAPHQL_DOCUMENTS: "any" });

const apikey = () => service().service.tokens.issueKey("anon");
const asUser = async (id: number) => ({ ...cookieOf(await makeSession(service(), id)), apikey: apikey() });

test.each([
  "/users/1",
  "/users",
  "/api/v2/articles",
  "/tasks",
  "/openapi.json",
  "/rest/v1/articles",
  "/rest/v1/rpc/me",
  "/rest/v1/",
])("the response of %s may be stored by one client only, and Vary names the credentials", async (path) => {
  const { status, headers } = await api(path, { headers: await asUser(1) });
  expect(status).toBe(200);
  expect(headers.get("cache-control")).toBe("private, no-cache");
  const vary = headers.get("vary")!.toLowerCase().split(/, */);
  expect(vary).toEqual(expect.arrayContaining(["authorization", "apikey", "x-api-key", "cookie"]));
});

test.each([["/api/auth/me"], ["/csrf-token"], ["/graphql?query={me{id}}"]])(
  "the response of %s may not be stored",
  async (path) => {
    const { status, headers } = await api(path, { headers: await asUser(1) });
    expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
  },
);

test("a response that a browser has stored in one session is not valid in the next", async () => {
  const ofAda = await api("/rest/v1/rpc/me", { headers: await asUser(1) });
  const etag = ofAda.headers.get("etag")!;
  expect((await api("/rest/v1/rpc/me", { headers: { ...(await asUser(1)), "if-none-match": etag } })).status).toBe(304);
  const { status, json } = await api("/rest/v1/rpc/me", { headers: { ...(await asUser(2)), "if-none-match": etag } });
  expect([status, json.id]).toEqual([200, 2]);
});

import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { type ApiReply, sendTo } from "../../support/resource-client.ts";
import { WebClient } from "../../support/web-client.ts";
import { oidcEntry, useFederated } from "./support.ts";

const client = useFederated({
  entries: (idp) => [oidcEntry(idp)],
  settings: async ({ url }) => {
    const file = join(await mkdtemp(join(tmpdir(), "issuers-")), "issuers.json");
    await writeFile(file, JSON.stringify([{ issuer: url, audience: "api" }]));
    return { JWT_ISSUERS: file };
  },
});

/** The id of the user whose identity is linked. */
let mary: number;
beforeAll(async () => {
  const browser = new WebClient();
  await client.signIn(browser);
  mary = (await browser.request(`${client.service().url}/api/auth/me`)).json.userId;
});

/** An access token of the provider for this service. */
function token(claims: object = {}): string {
  const seconds = Math.floor(Date.now() / 1000);
  const { url } = client.idp();
  return client.idp().sign({ iss: url, aud: "api", sub: "mary", role: "authenticated", exp: seconds + 300, ...claims });
}
const ask = (request: string, bearer: string, body?: unknown): Promise<ApiReply> =>
  sendTo(client.service().url, request, { headers: { authorization: `Bearer ${bearer}` }, body });
const rename = (bearer: string, name = "Mary S.") => ask(`PATCH /users/${mary}`, bearer, { name });
const setAccount = (change: string) => client.sql(`update auth_private.accounts set ${change} where user_id = ${mary}`);

test("an access token of a trusted issuer identifies the user whose account its subject is linked to", async () => {
  expect((await rename(token())).status).toBe(200);
  expect((await ask("GET /auth/identities", token())).json.data).toHaveLength(1);
  // The role is that of the account, and other claims of the token cannot change who the user is.
  expect((await rename(token({ role: undefined, name: "x", permissions: ["all"], auth_time: 9e9 }))).status).toBe(200);
});

test("an identity that is linked to no account is no user", async () => {
  expect((await rename(token({ sub: "paul" }))).status).toBe(403);
});

test("it proves no recent sign-in", async () => {
  const { status, json } = await ask("POST /auth/keys", token({ auth_time: Date.now() / 1000 }), { name: "x" });
  expect([status, json.error.code]).toEqual([401, "PASSWORD_REQUIRED"]);
});

test("it is refused while the account has a second factor, which it does not prove", async () => {
  await client.sql("insert into auth_private.factors (user_id, secret, enabled_at) values ($1, 'x', now())", mary);
  await setAccount("epoch = epoch");
  await expect.poll(async () => (await rename(token())).json.error?.code).toBe("MFA_REQUIRED");
  await client.sql("delete from auth_private.factors where user_id = $1", mary);
  await setAccount("epoch = epoch");
  await expect.poll(async () => (await rename(token())).status).toBe(200);
});

test("it is refused within a second after the account is disabled", async () => {
  const bearer = token();
  await setAccount("disabled_at = now()");
  await expect.poll(async () => (await rename(bearer)).status).toBe(401);
  await setAccount("disabled_at = null");
  await expect.poll(async () => (await rename(bearer)).status).toBe(200);
});

test("it has no role that its issuer may not give, even if the account has it", async () => {
  await setAccount("role = 'admin'");
  await expect.poll(async () => (await rename(token())).status).toBe(401);
  await setAccount("role = 'authenticated'");
  await expect.poll(async () => (await rename(token())).status).toBe(200);
});

test("it identifies the user within a second after linking, and no longer after unlinking", async () => {
  const bearer = token({ sub: "of-ada" });
  const patch = () => ask("PATCH /users/1", bearer, { age: 37 });
  expect((await patch()).status).toBe(403);
  await client.sql(
    "insert into auth_private.identities (user_id, provider, issuer, subject, linked_at) values (1, 'acme', $1, 'of-ada', now())",
    client.idp().url,
  );
  await expect.poll(async () => (await patch()).status).toBe(200);
  await client.sql("delete from auth_private.identities where subject = 'of-ada'");
  await expect.poll(async () => (await patch()).status).toBe(403);
});

import { expect, test } from "vitest";
import { Authenticator } from "../../support/authenticator.ts";
import { useFactors } from "../../support/second-factor.ts";
import { visit } from "../../support/visit.ts";

const client = useFactors({ PARTS: "-passkeys" });
const { service, api, failure, login, signIn, sql } = client;

const statusOf = async (method: string, path: string) => {
  const headers = { authorization: `Bearer ${await signIn("ada")}` };
  return (await fetch(`${service().url}${path}`, { method, headers, redirect: "manual" })).status;
};

test("without the part, its routes, those of /auth/v1 and the pages for passkeys are neither served nor described", async () => {
  for (const [method, path] of [
    ["GET", "/auth/passkeys"],
    ["OPTIONS", "/auth/passkeys/challenge"],
    ["OPTIONS", "/auth/v1/passkeys"],
    ["OPTIONS", "/auth/v1/admin/users/1/passkeys"],
    ["OPTIONS", "/auth/account/passkeys"],
    ["OPTIONS", "/auth/sign-in/passkey"],
  ] as const)
    expect([path, await statusOf(method, path)]).toEqual([path, 404]);
  const { json } = await api("GET /openapi.json");
  expect(Object.keys(json.paths).filter((path) => path.includes("passkeys"))).toEqual([]);
  expect((await api("GET /auth/v1/settings")).json.passkeys_enabled).toBe(false);
});

test("the page for sign-in has no button for passkeys", async () => {
  const { text } = await visit(client, "/auth/sign-in");
  expect(text).toContain("Password");
  expect(text).not.toMatch(/passkey/i);
});

test("a passkey signs nobody in, and stays a second factor, in whose place a backup code is sent", async () => {
  const key = new Authenticator(service().url.replace("127.0.0.1", "localhost"));
  const passkey = key.get({ challenge: "A".repeat(51) });
  expect((await failure("POST /auth/login", { body: { passkey } }))[0]).toBe(401);
  await sql(
    `insert into auth_private.passkeys (user_id, name, credential_id, public_key, counter, transports, is_synced, created_at)
     values (1, 'Phone', '\\x01', '\\x02', 0, '{}', false, now())`,
  );
  expect((await login("ada")).json.error.code).toBe("MFA_REQUIRED");
});

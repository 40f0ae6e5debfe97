import { expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

let now = Date.now();
const settings = {
  LOGIN_ATTEMPTS: "2",
  loginAttemptsPerAddress: 4,
  loginWindow: 900,
  TRUST_PROXY: "127.0.0.1",
};
const client = useService(settings, () => now);

const login = async (username: string, address: string) =>
  (
    await client.send("/auth/login", {
      method: "POST",
      headers: { "content-type": "application/json", "x-forwarded-for": address },
      body: JSON.stringify({ username, password: "Wrong-Horse-7!" }),
    })
  ).status;
const events = () =>
  client.sql("select user_id::text as user, detail from security_events where event = 'login_throttled' order by id");

test("refused logins are one event for each limit, network and window, with their number", async () => {
  for (let i = 0; i < 9; i++) await login("ada", "203.0.113.7");
  const account = { limit: "LOGIN_ATTEMPTS", network: "203.0.113.7" };
  expect(await events()).toEqual([{ user: "1", detail: { ...account, count: 7 } }]);
  for (const name of ["bob", "bob", "bob", "carol", "dora"])
    expect([401, 429]).toContain(await login(name, "203.0.113.7"));
  const network = { limit: "address_logins", network: "203.0.113.7" };
  expect(await events()).toEqual([
    { user: "1", detail: { ...account, count: 7 } },
    { user: "2", detail: { ...account, count: 1 } },
    { user: null, detail: { ...network, count: 2 } },
  ]);
  await login("ada", "203.0.113.8");
  now += 901_000;
  for (let i = 0; i < 4; i++) await login("ada", "203.0.113.7");
  expect((await events()).slice(3)).toEqual([{ user: "1", detail: { ...account, count: 2 } }]);
});

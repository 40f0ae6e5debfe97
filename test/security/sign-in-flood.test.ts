import { expect, onTestFinished, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { POLL } from "../support/until.ts";

const PASSWORD = "Correct-Horse-7!";
const FLOOD = "198.51.100.7";
const OTHER = "203.0.113.9";
const client = useService({
  ...{ TRUST_PROXY: "loopback", GRAPHQL_DOCUMENTS: "none" },
  ...{ LOGIN_ATTEMPTS: "1000", API_KEY_REQUIRED: "off" },
});

/** The routes that verify a password. */
const VERIFYING = [
  ...["/auth/login", "/api/auth/login", "/auth/sign-in"],
  ...["/auth/v1/token?grant_type=password", "/auth/v1/signup", "/auth/v1/verify"],
];

const from = (address: string) => ({ "x-forwarded-for": address });
const login = (address: string, username: string) =>
  sendJson(client, "/auth/login", { username, password: PASSWORD }, from(address));

/** Every sign-in of the network takes this lock, to count its attempts. */
const LOCK = `hashtextextended('content-service:attempts:' || encode(auth_private.attempt_key('address', '${FLOOD}'), 'hex'), 0)`;
const blocked = async () =>
  Number(
    (
      await client.sql(
        `select count(*) as count from pg_stat_activity
         where datname = current_database() and usename like '%\\_auth' and wait_event = 'advisory'`,
      )
    )[0]!.count,
  );

test("while many sign-ins of one network wait for the database, another network signs in, renews tokens and reads tables", async () => {
  await client.sql(`select pg_advisory_lock(${LOCK})`);
  onTestFinished(() => client.sql("select pg_advisory_unlock_all()").then(() => {}));
  const flood = Array.from({ length: 200 }, (_, i) => login(FLOOD, i % 2 === 0 ? "ada" : `user ${i}`));
  // Three of the four connections are the share of one network.
  await expect.poll(blocked).toBe(3);
  // Refused before the body, which has no password.
  const refused = async (path: string) => (await sendJson(client, path, {}, from(FLOOD))).status;
  for (const path of VERIFYING) await expect.poll(() => refused(path), POLL).toBe(503);
  expect(await refused("/auth/v1/token?grant_type=refresh_token")).toBe(400);
  const signedIn = await login(OTHER, "bob");
  expect(signedIn.status).toBe(200);
  const { refreshToken } = signedIn.json;
  expect((await sendJson(client, "/auth/refresh", { refreshToken }, from(OTHER))).status).toBe(200);
  const read = await client.send("/rest/v1/articles?select=id&id=eq.1", { headers: from(OTHER) });
  expect([read.status, read.json]).toEqual([200, [{ id: 1 }]]);
  // A cookie that no one has seen needs a query.
  const cookie = { ...from(OTHER), cookie: `session=${"A".repeat(43)}` };
  expect((await client.send("/users/2", { headers: cookie })).status).toBeLessThan(500);
  expect(await blocked()).toBe(3);
  await client.sql("select pg_advisory_unlock_all()");
  const statuses = new Set((await Promise.all(flood)).map(({ status }) => status));
  expect([...statuses.difference(new Set([200, 401, 503]))]).toEqual([]);
  expect((await login(OTHER, "ada")).status).toBe(200);
});

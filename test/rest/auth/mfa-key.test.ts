import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { sendTo } from "../../support/resource-client.ts";
import { PASSWORD } from "../../support/second-factor.ts";
import { JWT_SECRET, startTestService, type TestService } from "../../support/service.ts";
import { appCode } from "../../support/totp.ts";

const OTHER = "another secret of the tests, long enough for keys";

let database: TestDatabase;
let now: number;
const running: TestService[] = [];

beforeEach(async () => {
  database = await createTestDatabase();
  now = Date.now();
});
afterEach(async () => {
  for (const { service } of running.splice(0)) await service.stop();
  await database.drop();
});

/** The service on the one database, started anew. */
async function start(settings: Readonly<Record<string, string>> = {}): Promise<TestService> {
  for (const { service } of running.splice(0)) await service.stop();
  const started = await startTestService({ GRAPHQL_MAX_TABLES: "0", ...settings }, database, undefined, () => now);
  running.push(started);
  return started;
}

async function begin({ url, token }: TestService): Promise<string> {
  const headers = { authorization: `Bearer ${token("ada")}` };
  return (await sendTo(url, "POST /api/mfa/enable", { headers })).json.secret;
}

const verify = ({ url, service }: TestService, secret: string) => {
  const user = { id: "1", name: "Ada Lovelace", role: "authenticated", permissions: [] };
  const headers = { authorization: `Bearer ${service.tokens.issuePair(user).accessToken}` };
  return sendTo(url, `POST /api/mfa/verify?code=${appCode(secret, now)}`, { headers });
};

const login = ({ url }: TestService, code: string) => {
  now += 60_000;
  return sendTo(url, "POST /auth/login", { body: { username: "ada", password: PASSWORD, code } });
};

test("secrets are not in the database as they are, and codes neither", async () => {
  const service = await start();
  const secret = await begin(service);
  const { backupCodes } = (await verify(service, secret)).json;
  const stored = await database.owner.query(
    "select to_jsonb(f)::text || coalesce(string_agg(to_jsonb(c)::text, ''), '') as text, f.secret from auth_private.factors as f left join auth_private.backup_codes as c using (user_id) group by f.user_id",
  );
  const { text, secret: sealed } = stored.rows[0];
  expect(sealed.toString("latin1")).not.toContain(secret);
  for (const shown of [secret, Buffer.from(secret).toString("hex"), ...backupCodes]) expect(text).not.toContain(shown);
});

test("a factor outlives a restart", async () => {
  const first = await start();
  const secret = await begin(first);
  const { backupCodes } = (await verify(first, secret)).json;
  const second = await start();
  expect((await login(second, appCode(secret, now + 60_000))).status).toBe(200);
  expect((await login(second, backupCodes[0])).status).toBe(200);
});

test("an enrolment outlives a restart, and a restart with another key ends it", async () => {
  const secret = await begin(await start());
  const other = await start({ MFA_KEY: OTHER });
  expect((await verify(other, secret)).status).toBe(400);
  expect((await verify(await start(), secret)).status).toBe(200);
});

test("with another key codes can't be checked, which the answer says and the events note; nothing is lost", async () => {
  const first = await start();
  const secret = await begin(first);
  const { backupCodes } = (await verify(first, secret)).json;
  const other = await start({ MFA_KEY: OTHER });
  const { status, json } = await login(other, appCode(secret, now + 60_000));
  expect([status, json.error.code, json.error.message]).toEqual([
    503,
    "INTERNAL_ERROR",
    "the second factor can't be checked: the service has another MFA_KEY than when it was enabled",
  ]);
  expect((await login(other, backupCodes[0])).status).toBe(401);
  expect((await sendTo(other.url, "/health", {})).status).toBe(200);
  const { rows } = await database.owner.query("select event from security_events where event = 'factor_unreadable'");
  expect(rows).toHaveLength(1);
  expect((await login(await start(), appCode(secret, now + 60_000))).status).toBe(200);
});

test("JWT_SECRET may change when MFA_KEY keeps what it was before", async () => {
  const first = await start();
  const secret = await begin(first);
  await verify(first, secret);
  const second = await start({ JWT_SECRET: OTHER, MFA_KEY: JWT_SECRET });
  expect((await login(second, appCode(secret, now + 60_000))).status).toBe(200);
});

test.each([
  [{ MFA_KEY: "short" }, "MFA_KEY must have at least 32 bytes"],
  [{ MFA_ISSUER: "a:b" }, 'MFA_ISSUER must have 1 to 64 characters, without colons (is "a:b")'],
  [{ MFA_ATTEMPTS: "0" }, 'MFA_ATTEMPTS must be at least 1 (is "0")'],
  [{ MFA_KEYS: "x" }, "MFA_KEYS is no setting of this service; npm start -- --help lists them"],
])("%j is refused at the start, and keys are not shown", async (settings, message) => {
  await expect(start(settings)).rejects.toThrow(new Error(message));
});

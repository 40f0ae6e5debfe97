import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readConfig } from "../../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { sendTo } from "../../support/resource-client.ts";
import { PASSWORD } from "../../support/second-factor.ts";
import { JWT_SECRET, startTestService, type TestService } from "../../support/service.ts";
import { appCode } from "../../support/totp.ts";

const OTHER = "another secret of the tests, long enough for keys";

let database: TestDatabase;
let running: TestService | undefined;
let now: number;
/** At the first start, ada has enabled a factor, and bob has a pending one. */
let ada: { readonly secret: string; readonly backupCodes: string[] };
let bob: { readonly secret: string };

beforeAll(async () => {
  database = await createTestDatabase();
  now = Date.now();
  const service = await start();
  bob = await begin(service, "bob");
  const { secret } = await begin(service, "ada");
  ada = { secret, backupCodes: (await verify(service, "ada", secret)).json.backupCodes };
});
afterAll(async () => {
  await running?.service.stop();
  await database.drop();
});

/** Restarts the service on the same database. */
async function start(settings: Readonly<Record<string, string>> = {}): Promise<TestService> {
  await running?.service.stop();
  running = await startTestService({ GRAPHQL_DOCUMENTS: "none", ...settings }, database, undefined, () => now);
  return running;
}

const bearer = ({ token }: TestService, as: "ada" | "bob") => ({ authorization: `Bearer ${token(as)}` });

const begin = async (service: TestService, as: "ada" | "bob") =>
  (await sendTo(service.url, "POST /api/mfa/enable", { headers: bearer(service, as) })).json;

const verify = (service: TestService, as: "ada" | "bob", secret: string) =>
  sendTo(service.url, `POST /api/mfa/verify?code=${appCode(secret, now)}`, { headers: bearer(service, as) });

const login = ({ url }: TestService, code: string) => {
  now += 60_000;
  return sendTo(url, "POST /auth/login", { body: { username: "ada", password: PASSWORD, code } });
};

/** The code of ada's app at the next login. */
const nextCode = () => appCode(ada.secret, now + 60_000);

test("the database stores neither secrets nor backup codes in plain text", async () => {
  const { rows } = await database.owner.query(
    "select to_jsonb(f)::text || coalesce(string_agg(to_jsonb(c)::text, ''), '') as text from auth_private.factors as f left join auth_private.backup_codes as c using (user_id) group by f.id",
  );
  expect(rows).toHaveLength(2);
  const stored = rows.map(({ text }) => text).join();
  // Binary columns are returned in hexadecimal.
  const hidden = [ada.secret, bob.secret, ...ada.backupCodes].flatMap((text) => [
    text,
    Buffer.from(text).toString("hex"),
  ]);
  expect(hidden.filter((text) => stored.includes(text))).toEqual([]);
});

describe("after a restart with another key", () => {
  let service: TestService;
  beforeAll(async () => {
    service = await start({ MFA_KEY: OTHER });
  });

  test("a pending enrolment is lost", async () => expect((await verify(service, "bob", bob.secret)).status).toBe(400));

  test("codes cannot be checked, which the response and an event report", async () => {
    const { status, json } = await login(service, nextCode());
    expect([status, json.error.code, json.error.message]).toEqual([
      503,
      "INTERNAL_ERROR",
      "the second factor cannot be checked: MFA_KEY has changed since it was enabled",
    ]);
    expect((await login(service, ada.backupCodes[0]!)).status).toBe(401);
    expect((await sendTo(service.url, "/health", {})).status).toBe(200);
    const { rows } = await database.owner.query("select event from security_events where event = 'factor_unreadable'");
    expect(rows).toHaveLength(1);
  });
});

describe("after a restart with the same key again", () => {
  let service: TestService;
  beforeAll(async () => {
    service = await start();
  });

  test("a pending enrolment continues", async () =>
    expect((await verify(service, "bob", bob.secret)).status).toBe(200));

  test("an enabled factor works as before", async () => {
    expect((await login(service, nextCode())).status).toBe(200);
    expect((await login(service, ada.backupCodes[0]!)).status).toBe(200);
  });
});

test("JWT_SECRET may change if MFA_KEY is set to its old value", async () => {
  const service = await start({ JWT_SECRET: OTHER, MFA_KEY: JWT_SECRET });
  expect((await login(service, nextCode())).status).toBe(200);
});

test.each([
  [{ MFA_KEY: "short" }, "MFA_KEY must have at least 32 bytes"],
  [{ MFA_KEYS: "x" }, "MFA_KEYS is not a setting of this service; npx content-service start --help lists all settings"],
])("%j is rejected at start, and no key is printed", (settings, message) => {
  expect(() => readConfig(settings)).toThrow(new Error(message));
});

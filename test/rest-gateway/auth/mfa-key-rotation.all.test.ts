import pino from "pino";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { sendTo } from "../../support/resource-client.ts";
import { PASSWORD } from "../../support/second-factor.ts";
import { JWT_SECRET, startTestService, type TestService, type TestSettings } from "../../support/service.ts";
import { appCode } from "../../support/totp.ts";

const OLD = "the first key of the tests, long enough for keys";
const NEW = "the second key of the tests, long enough for keys";
const THIRD = "the third key of the tests, long enough for keys";
const ROTATING = { MFA_KEY: NEW, MFA_PREVIOUS_KEY: OLD };

const STORED = ["auth_private.factors", "auth_private.backup_codes"];

type Enrolled = { readonly secret: string; readonly backupCodes: readonly string[] };

let database: TestDatabase;
let now: number;
let lines: string[] = [];
const running: TestService[] = [];
/** Users with a second factor under the old key, at the start of each test. */
let ada: Enrolled;
let bob: Enrolled;
let enrolledAt: number;

beforeAll(async () => {
  database = await createTestDatabase();
  now = enrolledAt = Date.now();
  const first = await start({ MFA_KEY: OLD });
  ada = await enrol(first);
  bob = await enrol(first, "bob");
  for (const table of STORED) await database.owner.query(`create table ${table}_as_enrolled as table ${table}`);
  await stopAll();
  return () => database.drop();
});
beforeEach(async () => {
  for (const table of STORED) {
    await database.owner.query(`delete from ${table}`);
    await database.owner.query(`insert into ${table} table ${table}_as_enrolled`);
  }
  await database.owner.query("delete from auth_private.attempts");
  now = enrolledAt;
  lines = [];
});
afterEach(stopAll);

async function stopAll(): Promise<void> {
  for (const { service } of running.splice(0)) await service.stop();
}

/** Starts another service on the same database. */
async function startBeside(settings: TestSettings): Promise<TestService> {
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const started = await startTestService({ GRAPHQL_DOCUMENTS: "none", ...settings }, database, log, () => now);
  running.push(started);
  return started;
}

/** Restarts the service. */
async function start(settings: TestSettings): Promise<TestService> {
  await stopAll();
  return startBeside(settings);
}

const IDS = { ada: 1, bob: 2 };
type Name = keyof typeof IDS;
const signedIn = async ({ token }: TestService, name: Name) => {
  const text = "select epoch from auth_private.accounts where user_id = $1";
  const { epoch } = (await database.owner.query(text, [IDS[name]])).rows[0];
  return { authorization: `Bearer ${token(name, { epoch, signedInAt: now })}` };
};

async function begin(service: TestService, name: Name = "ada"): Promise<string> {
  return (await sendTo(service.url, "POST /api/mfa/enable", { headers: await signedIn(service, name) })).json.secret;
}

const verify = async (service: TestService, secret: string, name: Name = "ada") =>
  sendTo(service.url, `POST /api/mfa/verify?code=${appCode(secret, now)}`, { headers: await signedIn(service, name) });

/** The secret of the app, and the backup codes. */
async function enrol(service: TestService, name: Name = "ada"): Promise<Enrolled> {
  const secret = await begin(service, name);
  const { backupCodes } = (await verify(service, secret, name)).json;
  return { secret, backupCodes: backupCodes as string[] };
}

const login = (service: TestService, code: string, username: Name = "ada") =>
  sendTo(service.url, "POST /auth/login", { body: { username, password: PASSWORD, code } });

/** The status of a login with the code that the app shows later. */
async function loginByApp(service: TestService, secret: string, username: Name = "ada"): Promise<number> {
  now += 60_000;
  return (await login(service, appCode(secret, now), username)).status;
}

test("secrets of the previous key remain valid, and once it was configured they remain valid without it", async () => {
  expect(await loginByApp(await start(ROTATING), ada.secret)).toBe(200);
  const last = await start({ MFA_KEY: NEW });
  expect(await loginByApp(last, ada.secret)).toBe(200);
  // The user has not signed in meanwhile.
  expect(await loginByApp(last, bob.secret, "bob")).toBe(200);
  expect(await loginByApp(await start({ MFA_KEY: OLD }), ada.secret)).toBe(503);
});

test("a spent code stays spent, and a factor stays enabled", async () => {
  const state = "select enabled_at, last_step, pending from auth_private.factors";
  const before = await database.owner.query(state);
  const next = await start(ROTATING);
  expect((await database.owner.query(state)).rows).toEqual(before.rows);
  expect((await login(next, appCode(ada.secret, now))).status).toBe(401);
  const { status, json } = await sendTo(next.url, "POST /auth/login", {
    body: { username: "ada", password: PASSWORD },
  });
  expect([status, json.error.code]).toEqual([401, "MFA_REQUIRED"]);
});

test("the log has the number of secrets that were encrypted with the current key, and no secret or key", async () => {
  const logged = async (settings: TestSettings) => {
    lines.length = 0;
    await start(settings);
    const text = lines.join("");
    for (const hidden of [OLD, NEW, THIRD, ada.secret]) expect(text).not.toContain(hidden);
    return lines
      .map((line) => JSON.parse(line))
      .flatMap(({ msg, factors }) => (factors === undefined ? [] : [[msg, factors]]));
  };
  expect(await logged({ MFA_KEY: OLD })).toEqual([]);
  expect(await logged(ROTATING)).toEqual([["second factors were encrypted with the current key", 2]]);
  expect(await logged(ROTATING)).toEqual([["second factors were encrypted with the current key", 0]]);
  expect(await logged({ MFA_KEY: THIRD, MFA_PREVIOUS_KEY: OLD })).toEqual([
    ["second factors were encrypted with the current key", 0],
    ["second factors cannot be decrypted with MFA_KEY or MFA_PREVIOUS_KEY", 2],
  ]);
});

test("a wrong previous key loses no factor", async () => {
  expect(await loginByApp(await start({ MFA_KEY: NEW, MFA_PREVIOUS_KEY: THIRD }), ada.secret)).toBe(503);
  expect(await loginByApp(await start(ROTATING), ada.secret)).toBe(200);
});

test("old backup codes are valid once, while the previous key is configured; new ones remain valid without it", async () => {
  const [first, second, third, fourth] = ada.backupCodes as [string, string, string, string];
  const both = await start(ROTATING);
  expect((await login(both, first)).status).toBe(200);
  expect((await login(both, first)).status).toBe(401);
  expect((await login(await start({ MFA_KEY: NEW }), second)).status).toBe(401);

  const again = await start(ROTATING);
  const renewed = await sendTo(again.url, "POST /api/mfa/backup-codes", {
    headers: await signedIn(again, "ada"),
    body: { password: PASSWORD, code: fourth },
  });
  expect((await login(again, third)).status).toBe(401);
  expect((await login(await start({ MFA_KEY: NEW }), renewed.json.backupCodes[0])).status).toBe(200);
});

test("a wrong code counts once, even if there are several keys", async () => {
  const both = await start({ ...ROTATING, mfaAttempts: 2 });
  const statuses = [];
  for (const code of ["ABCDEFGH", "ABCDEFGJ", "ABCDEFGK"]) statuses.push((await login(both, code)).status);
  expect(statuses).toEqual([401, 401, 429]);
});

test("an enrolment that started under the old key completes under the new one", async () => {
  await database.owner.query("delete from auth_private.factors");
  const secret = await begin(await start({ MFA_KEY: OLD }));
  const { status, json } = await verify(await start(ROTATING), secret);
  expect([status, json.backupCodes.length]).toEqual([200, 10]);
  const last = await start({ MFA_KEY: NEW });
  expect(await loginByApp(last, secret)).toBe(200);
  expect((await login(last, json.backupCodes[0])).status).toBe(200);
});

test("services that change keys one after the other work together if both know both keys", async () => {
  const first = await startBeside({ MFA_KEY: OLD, MFA_PREVIOUS_KEY: NEW });
  const second = await startBeside(ROTATING);
  expect(await loginByApp(first, ada.secret)).toBe(200);
  expect(await loginByApp(second, ada.secret)).toBe(200);
  await database.owner.query("delete from auth_private.factors where user_id = 2");
  const enrolledAgain = await enrol(first, "bob");
  expect(await loginByApp(second, enrolledAgain.secret, "bob")).toBe(200);
});

test.each<[what: string, before: Record<string, string>, after: Record<string, string>]>([
  ["MFA_KEY is set where it was unset", {}, { MFA_KEY: NEW, MFA_PREVIOUS_KEY: JWT_SECRET }],
  ["JWT_SECRET changes, and no MFA_KEY is set", {}, { JWT_SECRET: NEW, MFA_PREVIOUS_KEY: JWT_SECRET }],
  ["MFA_KEY is taken out", { MFA_KEY: OLD }, { MFA_PREVIOUS_KEY: OLD }],
])("%s", async (_, before, after) => {
  await database.owner.query("delete from auth_private.factors");
  const { secret } = await enrol(await start(before));
  expect(await loginByApp(await start(after), secret)).toBe(200);
  const { MFA_PREVIOUS_KEY: __, ...alone } = after;
  expect(await loginByApp(await start(alone), secret)).toBe(200);
});

test("a key that is too short is rejected at start, and not printed", async () => {
  await expect(start({ MFA_KEY: NEW, MFA_PREVIOUS_KEY: "short" })).rejects.toThrow(
    new Error("MFA_PREVIOUS_KEY must have at least 32 bytes"),
  );
});

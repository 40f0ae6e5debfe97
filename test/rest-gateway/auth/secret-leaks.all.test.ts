import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import pg from "pg";
import pino from "pino";
import { beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { key as keyCommand } from "../../../cli/key.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { type ApiReply, type ApiSent, sendTo } from "../../support/resource-client.ts";
import { JWT_SECRET, startTestService, type TestService } from "../../support/service.ts";
import { appCode } from "../../support/totp.ts";

const serviceLog: string[] = [];
/** The bytes that each connection has sent to the database: the log of the database cannot contain more. */
const statements: Buffer[][] = [];
/** Without redaction: secrets must not be logged in the first place. */
const log = pino({ level: "trace" }, { write: (line: string) => void serviceLog.push(line) });

/** Many attempts fail here: limits must not reject them. */
const SETTINGS = {
  JWT_REFRESH_GRACE: "0",
  LOGIN_ATTEMPTS: "1000",
  loginAttemptsPerAddress: 10_000,
  mfaAttempts: 1000,
  TASK_CONCURRENCY: "2",
};

/** Its `url` is that of the recording proxy. */
let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  const made = await createTestDatabase();
  const proxy = await startRecordingProxy(made.url);
  database = { ...made, url: proxy.url };
  service = await startTestService(SETTINGS, database, log);
  return async () => {
    await service.stop();
    proxy.close();
  };
});

/** Starts a proxy to the database that records what is sent. */
async function startRecordingProxy(databaseUrl: string) {
  const url = new URL(databaseUrl);
  const { hostname, port } = url;
  const server = createServer((client) => {
    const sent: Buffer[] = [];
    statements.push(sent);
    client.on("data", (chunk) => sent.push(chunk));
    const there = connect(Number(port), hostname);
    for (const socket of [client, there]) socket.on("error", () => {});
    client.pipe(there).pipe(client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  url.port = String((server.address() as AddressInfo).port);
  return { url: url.href, close: () => server.close() };
}

/** All secrets that were sent or issued, by description. */
const secrets = new Map<string, string>();
/** Error responses, including their headers. */
const problems: string[] = [];

/** Creates a unique secret, in place of `*` in `form`. */
function plant(what: string, form = "*"): string {
  const secret = form.replace("*", `Secret${randomBytes(9).toString("hex")}`);
  secrets.set(what, secret);
  return secret;
}
const password = (what: string) => plant(`password: ${what}`, "*-7!");

/** Short enough for a code. */
function plantCode(what: string): string {
  const code = `Can${randomBytes(8).toString("hex")}`;
  secrets.set(what, code);
  return code;
}

/** Records secrets that the service has issued. */
function keep<T extends string>(what: string, secret: T): T {
  expect(secret, what).toEqual(expect.any(String));
  secrets.set(what, secret);
  return secret;
}

async function ask(request: string, sent: Omit<ApiSent, "as"> = {}): Promise<ApiReply> {
  const reply = await sendTo(service.url, request, sent);
  const faults = serviceLog.filter((line) => JSON.parse(line).level === "error").slice(-3);
  expect(reply.status, `${request}: ${reply.text} ${faults.join("")}`).toBeLessThan(500);
  if (reply.status >= 400 || reply.json?.errors) problems.push(`${JSON.stringify([...reply.headers])} ${reply.text}`);
  return reply;
}

/** Sends a request that must be rejected. */
async function refused(request: string, sent: Omit<ApiSent, "as"> = {}): Promise<void> {
  const { status, text } = await ask(request, sent);
  expect(status, `${request}: ${text}`).toBeGreaterThanOrEqual(400);
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const basic = (username: string, word: string) => ({
  authorization: `Basic ${Buffer.from(`${username}:${word}`).toString("base64")}`,
});

/** A request to each interface. */
const INTERFACES: readonly [request: string, body?: unknown][] = [
  ["GET /users/1"],
  ["GET /tasks"],
  ["GET /rest/v1/articles?limit=1"],
  ["POST /graphql", { query: "{ me { id } }" }],
  ["GET /auth/keys"],
  ["POST /auth/password", { oldPassword: "x", newPassword: "y" }],
];
/** Requests that may also run as tasks. */
const TASKS: typeof INTERFACES = [
  ["GET /users?limit=1"],
  ["POST /rest/v1/rpc/search", { keyword: "loom" }],
  ["POST /articles", [{ title: "A title", content: "Some content." }]],
];

async function askEverywhere(headers: Readonly<Record<string, string>>, search = ""): Promise<void> {
  const send = ([request, body]: readonly [string, unknown?], prefer?: string) => {
    const url = search === "" ? request : `${request}${request.includes("?") ? "&" : "?"}${search}`;
    return ask(url, { headers, prefer, body });
  };
  for (const each of [...INTERFACES, ...TASKS]) await send(each);
  for (const each of TASKS) await send(each, "respond-async");
}

/** Sends valid and invalid secrets in every place where a request may have one. */
async function plantEverywhere(): Promise<void> {
  await signUpAndIn();
  await breakTokens();
  await breakBodies();
  await useKeys();
  await useCommands();
  await useSession();
  await useSecondFactor();
  await useSockets();
  await comeFromElsewhere();
  await sendWhatIsNoSecret();
}

const USER = { name: "Dora", email: "dora@test.example", username: "dora" };
let word: string;
let tokens: { accessToken: string; refreshToken: string };

async function signUpAndIn(): Promise<void> {
  word = password("right");
  const signedUp = await ask("POST /auth/register", { body: { ...USER, password: word } });
  expect(signedUp.status, signedUp.text).toBe(201);
  keep("access token of register", signedUp.json.accessToken);
  keep("refresh token of register", signedUp.json.refreshToken);
  await refused("POST /auth/register", { body: { ...USER, password: password("of a name that is taken") } });
  await refused("POST /auth/register", { body: { ...USER, name: 5, password: password("beside a fault") } });
  await refused("POST /auth/register", { body: { ...USER, password: plant("password: too weak") } });
  await refused("POST /users", { body: { name: "X", email: "x", password: password("POST /users") } });
  await refused("PATCH /users/1", { body: { password: password("PATCH /users") } });

  for (const path of ["/auth/login", "/api/auth/login"]) {
    await refused(`POST ${path}`, { body: { username: "dora", password: password(`wrong ${path}`) } });
    await refused(`POST ${path}`, { body: { username: "unknown", password: password(`of an unknown user ${path}`) } });
    await refused(`POST ${path}`, { body: { username: "carol", password: password(`of carol ${path}`) } });
    await refused(`POST ${path}`, { body: { username: "dora", password: word, code: [plant(`code ${path}`)] } });
    const challenge = plant(`challenge ${path}`);
    await refused(`POST ${path}`, { body: { challenge, code: plantCode(`code beside a challenge ${path}`) } });
  }
  tokens = (await ask("POST /auth/login", { body: { username: "dora", password: word } })).json;
  keep("access token", tokens.accessToken);
  keep("refresh token", tokens.refreshToken);
  const { json } = await ask("POST /auth/refresh", { body: { refreshToken: tokens.refreshToken } });
  keep("second refresh token", json.refreshToken);
  // If a token is used again, its whole family is revoked.
  await refused("POST /auth/refresh", { body: { refreshToken: tokens.refreshToken } });
  await refused("POST /auth/refresh", { body: { refreshToken: json.refreshToken } });
  await refused("POST /auth/refresh", { body: { refreshToken: tokens.accessToken } });
  await refused("POST /auth/refresh", { body: { refreshToken: plant("a refresh token that is none") } });
  await refused("POST /auth/refresh", { body: { refreshToken: { token: plant("a refresh token in an object") } } });
  await refused("GET /auth/keys", { headers: bearer(tokens.accessToken) });
  tokens = (await ask("POST /auth/login", { body: { username: "dora", password: word } })).json;
  keep("access token of the next family", tokens.accessToken);
  keep("refresh token of the next family", tokens.refreshToken);

  await refused("POST /auth/email", {
    headers: bearer(tokens.accessToken),
    body: { email: "x", password: password("beside an e-mail"), code: plantCode("beside an e-mail") },
  });
  await refused("POST /auth/password", {
    headers: bearer(tokens.accessToken),
    body: { oldPassword: password("wrong old"), newPassword: password("new beside a wrong old") },
  });
  await refused("POST /auth/password", {
    headers: bearer(tokens.accessToken),
    body: { oldPassword: word, newPassword: plant("password: new and too weak") },
  });
  const newWord = password("new");
  const changed = await ask("POST /auth/password", {
    headers: bearer(tokens.accessToken),
    body: { oldPassword: word, newPassword: newWord },
  });
  expect(changed.status, changed.text).toBe(200);
  word = newWord;
  tokens = (await ask("POST /auth/login", { body: { username: "dora", password: word } })).json;
  keep("access token after the change", tokens.accessToken);
  keep("refresh token after the change", tokens.refreshToken);
}

async function breakTokens(): Promise<void> {
  const { accessToken } = tokens;
  await askEverywhere(bearer(accessToken));
  await askEverywhere(basic("dora", word));
  secrets.set("Basic", basic("dora", word).authorization.slice("Basic ".length));
  const wrong = basic("dora", password("wrong Basic"));
  secrets.set("wrong Basic", wrong.authorization.slice("Basic ".length));
  await askEverywhere(wrong);
  for (const [what, authorization] of [
    ["Bearer", `Bearer ${plant("Bearer that is not a token")}`],
    ["a token cut short", `Bearer ${accessToken.slice(0, -4)}${plant("end of a token")}`],
    ["an opaque token", `Bearer ${plant("opaque token", "cs_user_*xxxxxxxxxxxx")}`],
    ["no scheme", plant("Authorization without a scheme")],
    ["Digest", `Digest username="dora", response="${plant("Digest")}"`],
    ["Negotiate", `Negotiate ${plant("Negotiate")}`],
    ["Basic in clear", `Basic dora:${password("Basic in clear")}`],
  ] as const) {
    expect(what).toBeTruthy();
    await askEverywhere({ authorization });
    await refused("POST /auth/logout", { headers: { authorization } });
  }
}

async function breakBodies(): Promise<void> {
  const paths = ["/auth/login", "/api/auth/login", "/auth/refresh", "/auth/register", "/auth/password", "/auth/keys"];
  for (const path of [...paths, "/api/mfa/verify", "/api/mfa/disable", "/api/mfa/backup-codes"]) {
    const headers = bearer(tokens.accessToken);
    const secret = (what: string) => password(`${what} at ${path}`);
    await refused(`POST ${path}`, { headers, body: `{"password":"${secret("JSON cut short")}` });
    await refused(`POST ${path}`, { headers, body: `{"password":${secret("without quotes")}}` });
    await refused(`POST ${path}`, { headers, body: secret("alone") });
    await refused(`POST ${path}`, { headers, body: [secret("in an array")] });
    await refused(`POST ${path}`, { headers, body: { password: { a: secret("in an object") } } });
    await refused(`POST ${path}`, { headers, body: { password: `\0${secret("with a NUL")}` } });
    await refused(`POST ${path}`, { headers, body: { password: secret("too long") + "x".repeat(500_000) } });
    await refused(`POST ${path}`, {
      headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
      body: `username=dora&password=${secret("in a form")}`,
    });
  }
}

async function useKeys(): Promise<void> {
  const { json } = await ask("POST /auth/keys", { headers: bearer(tokens.accessToken), body: { name: "a program" } });
  const key = keep("key", json.key);
  for (const value of [key, plant("key that is none"), plant("unknown key", "cs_user_*xxxxxxxxxxxx"), `${key}x`]) {
    await askEverywhere({ "x-api-key": value });
    await askEverywhere({ apikey: value });
    await askEverywhere(bearer(value));
    await askEverywhere({}, `api_key=${value}`);
  }
  secrets.set("service key", service.service.tokens.issueKey("service_role"));
  await askEverywhere({ apikey: secrets.get("service key")!, origin: "https://app.example" });
  await ask(`DELETE /auth/keys/${json.id}`, { headers: bearer(tokens.accessToken) });
  await askEverywhere({ "x-api-key": key });
}

/** The commands of operators connect to the database as its owner. */
async function useCommands(): Promise<void> {
  const settings = { DATABASE_URL: database.url, JWT_SECRET };
  for (const kind of ["anon", "service"]) {
    const made = (await keyCommand(["create", kind, `of ${kind}`], settings)).trim();
    keep(`${kind} key of the command`, made);
    await askEverywhere({ apikey: made });
  }
}

async function useSession(): Promise<void> {
  const signedIn = await ask("POST /api/auth/login", { body: { username: "dora", password: word } });
  expect(signedIn.status, signedIn.text).toBe(200);
  const cookie = signedIn.headers.get("set-cookie")!.split(";")[0]!;
  keep("session", cookie.slice("SESSION=".length));
  await askEverywhere({ cookie });
  const token = keep("CSRF token", (await ask("/csrf-token", { headers: { cookie } })).json.csrfToken);
  for (const value of [token, plant("CSRF token that is none")]) {
    await askEverywhere({ cookie, "x-csrf-token": value });
    await askEverywhere({ cookie, "x-xsrf-token": value });
    await askEverywhere({ cookie }, `_csrf=${value}`);
    await ask("POST /auth/keys", { headers: { cookie }, body: { name: "x", _csrf: value } });
  }
  await ask("/api/auth/me", { headers: { cookie } });
  const preset = `theme=dark; SESSION=${plant("session that is none")}`;
  await askEverywhere({ cookie: preset });
  await refused("/api/auth/me", { headers: { cookie: preset } });
  const again = await ask("POST /api/auth/login", {
    headers: { cookie: preset },
    body: { username: "dora", password: word },
  });
  const second = again.headers.get("set-cookie")!.split(";")[0]!;
  keep("second session", second.slice("SESSION=".length));
  await refused("POST /api/auth/logout", { headers: { cookie: preset } });
  expect((await ask("POST /api/auth/logout", { headers: { cookie: second } })).status).toBe(200);
  await refused("/api/auth/me", { headers: { cookie: second } });
}

async function useSecondFactor(): Promise<void> {
  const headers = bearer(tokens.accessToken);
  const { secret, qrCode } = (await ask("POST /api/mfa/enable", { headers })).json;
  keep("secret of the second factor", secret);
  keep("QR code", qrCode);
  await refused(`POST /api/mfa/verify?code=${plantCode("code in the address")}`, { headers });
  await refused("POST /api/mfa/verify", { headers, body: { code: plantCode("code in the body") } });
  const code = appCode(secret, Date.now());
  secrets.set("code of the app, in an address", `code=${code}`);
  secrets.set("code of the app, in JSON", `"${code}"`);
  const { json, status, text } = await ask(`POST /api/mfa/verify?code=${code}`, { headers });
  expect(status, text).toBe(200);
  for (const backup of json.backupCodes) keep(`backup code ${backup}`, backup);
  const credentials = { username: "dora", password: word };
  const lacking = await ask("POST /auth/login", { body: credentials });
  const challenge = lacking.json.challenge;
  // The response has to contain it.
  problems.splice(problems.indexOf(problems.at(-1)!), 1);
  keep("challenge", challenge);
  await refused("POST /auth/login", { body: { challenge, code: plantCode("code beside the challenge") } });
  await refused("POST /auth/login", { body: { ...credentials, code: plantCode("code at the login") } });
  const [first, second] = json.backupCodes;
  const byChallenge = await ask("POST /auth/login", { body: { challenge, code: first } });
  tokens = byChallenge.json;
  expect(byChallenge.status, byChallenge.text).toBe(200);
  keep("access token by challenge", tokens.accessToken);
  keep("refresh token by challenge", tokens.refreshToken);
  await refused("POST /api/auth/login", { body: { ...credentials, code: first } });
  const bySession = await ask("POST /api/auth/login", { body: { ...credentials, code: second } });
  keep("session by code", bySession.headers.get("set-cookie")!.split(";")[0]!.slice("SESSION=".length));
  const renewed = await ask("POST /api/mfa/backup-codes", {
    headers: bearer(tokens.accessToken),
    body: { password: word },
  });
  for (const backup of renewed.json.backupCodes ?? []) keep(`renewed backup code ${backup}`, backup);
  await refused("POST /api/mfa/disable", {
    headers: bearer(tokens.accessToken),
    body: { password: password("wrong at disable"), code: second },
  });
}

async function useSockets(): Promise<void> {
  const { accessToken } = tokens;
  const url = `${service.url.replace("http", "ws")}/graphql`;
  const init = (payload: object) => JSON.stringify({ type: "connection_init", payload });
  const secret = plant("token of a socket");
  for (const [search, headers, message] of [
    ["", {}, init({ authorization: `Bearer ${accessToken}` })],
    ["", {}, init({ authorization: `Bearer ${secret}` })],
    ["", {}, init({ Authorization: { token: plant("token in an object of a socket") } })],
    ["", bearer(plant("token of an upgrade")), init({})],
    ["", { cookie: `SESSION=${plant("cookie of an upgrade")}` }, init({})],
    [`?api_key=${plant("key in the address of a socket")}`, {}, init({})],
    ["", {}, `{"type":"connection_init","payload":${plant("broken message of a socket")}`],
  ] as const) {
    await new Promise<void>((resolve) => {
      const socket = new WebSocket(`${url}${search}`, "graphql-transport-ws", { headers });
      const end = () => {
        socket.close();
        resolve();
      };
      socket.once("open", () => socket.send(message));
      socket.once("message", (data) => {
        if (!String(data).includes("connection_ack")) problems.push(String(data));
        end();
      });
      socket.once("close", (code, reason) => {
        problems.push(`${code} ${reason}`);
        end();
      });
      socket.once("error", (error) => {
        problems.push(error.message);
        end();
      });
    });
  }
}

/** Parameters of other sign-in methods, whether they are served or not. */
async function comeFromElsewhere(): Promise<void> {
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const assertion = (what: string) => encodeURIComponent(Buffer.from(plant(what)).toString("base64"));
  for (const path of ["/auth/saml/idp/acs", "/auth/oidc/idp/callback", "/auth/login"]) {
    await refused(`POST ${path}`, { headers: form, body: `SAMLResponse=${assertion(`SAML at ${path}`)}` });
    await ask(`GET ${path}?code=${plant(`code of OIDC at ${path}`)}&state=${plant(`state at ${path}`)}`);
    await ask(`GET ${path}?access_token=${plant(`access token in the address of ${path}`)}`);
  }
}

const NO_SECRETS = { path: "no secret: a path", title: "no secret: a title" };

/** Found where it belongs, to prove that the search works. */
async function sendWhatIsNoSecret(): Promise<void> {
  await ask(`/nothing/${plant(NO_SECRETS.path)}`);
  const body = { title: plant(NO_SECRETS.title), content: "Some content." };
  expect((await ask("POST /articles", { headers: bearer(tokens.accessToken), body })).status).toBe(201);
}

/** Every row of every table, as text. */
async function wholeDatabase(): Promise<string> {
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    const { rows: tables } = await client.query(
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname not in ('pg_catalog', 'information_schema')`,
    );
    const texts = [];
    for (const { name } of tables) {
      const { rows } = await client.query(`select '${name}: ' || t::text as text from ${name} as t`);
      texts.push(...rows.map(({ text }) => text));
    }
    return texts.join("\n");
  } finally {
    await client.end();
  }
}

/** Descriptions of the secrets that the text contains, entirely or in a part that is long enough to matter. */
function found(text: string): string[] {
  return [...secrets]
    .filter(([, secret]) => {
      const middle = secret.length > 48 ? secret.slice(-32) : secret;
      return [...new Set([middle, encodeURIComponent(middle)])].some((form) => text.includes(form));
    })
    .map(([what]) => what);
}

test("secrets that are sent or issued do not appear in logs, error responses or the database", async () => {
  await plantEverywhere();
  await service.service.stop();
  const sent = statements.map((chunks) => Buffer.concat(chunks).toString("latin1")).join("\n");
  // Proves that parameters are recorded: each follows its length.
  for (const parameter of ["\0\0\0\x07unknown", "\0\0\0\x0aof service"]) expect(sent).toContain(parameter);
  const stored = await wholeDatabase();
  for (const trace of ["login_failed", "tasks.tasks: ", "api_keys: "]) expect(stored.includes(trace), trace).toBe(true);
  expect(serviceLog.length).toBeGreaterThan(100);
  expect(secrets.size).toBeGreaterThan(100);

  secrets.set("the secret of the service", JWT_SECRET);
  expect({
    serviceLog: found(serviceLog.join("\n")),
    statements: found(sent),
    problems: found(problems.join("\n")),
    stored: found(stored),
  }).toEqual({
    serviceLog: [NO_SECRETS.path],
    statements: [NO_SECRETS.title],
    problems: [],
    stored: [NO_SECRETS.title],
  });
});

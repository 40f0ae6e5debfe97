import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PARTS } from "../../../../parts/list.ts";
import { splitKey } from "../../../../rest-gateway/auth/route.ts";
import { authRoutesOf, loadParts } from "../../../../service/parts.ts";
import { Authenticator } from "../../../support/authenticator.ts";
import { openApiFaults, withTags } from "../../../support/openapi-rules.ts";
import { type ApiReply, type ApiSent, useResources } from "../../../support/resource-client.ts";
import { appCode } from "../../../support/totp.ts";
import { startProviders } from "../../federated/openapi-requests.ts";
import { startMails } from "../../mail/openapi-requests.ts";
import { documented, Seen } from "../responses.ts";
import { useAdministration } from "./admin-requests.ts";

const TABLE = authRoutesOf(await loadParts(PARTS, { parts: [], embedded: true }));
const BODY_LIMIT = 2000;
const providers = await startProviders();
afterAll(() => providers.close());
const mails = await startMails();
const client = useResources({
  ...mails.settings,
  BODY_LIMIT: String(BODY_LIMIT),
  apiKeysMax: 1,
  RATE_LIMIT: "1000000",
  AUTH_PROVIDERS: providers.file,
  AUTH_PROVIDERS_NETWORKS: "loopback",
});
const confirming = useResources({ ...mails.settings, EMAIL_CONFIRM: "required", RATE_LIMIT: "1000000" });
const closed = useResources({ SIGNUP: "off", RATE_LIMIT: "1000000" });
const throttled = useResources({ LOGIN_ATTEMPTS: "1", mfaAttempts: 1, registrationsPerAddress: 1 });
const foreign = useResources({ MIGRATE: "off", USERS_WRITE: "" });

const PASSWORD = "Correct-Horse-7!";
const UNKNOWN = "00000000-0000-4000-8000-000000000000";
const isAuth = (tag: string) => tag === "authentication";

let documents: { readonly 1: any; readonly 2: any };
beforeAll(async () => {
  documents = { 1: await client.body("/openapi.json"), 2: await client.body("/api/v2/openapi.json") };
});

/** Paths, and the methods that each is described with. */
const ROUTES: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  [...Map.groupBy(Object.keys(TABLE).map(splitKey), ([, path]) => path)].map(([path, keys]) => [
    path,
    keys.map(([method]) => method.toLowerCase()),
  ]),
);

/** `/auth/keys/{keyId}` → the path of a key that does not exist */
const example = (template: string) =>
  template
    .replace(/\{\w+Id\}/, UNKNOWN)
    .replace("{provider}", "unknown")
    .replace("{user}", "0");

test("the OpenAPI documents of both versions are valid, and include the routes of authentication", () => {
  for (const document of Object.values(documents)) {
    expect(openApiFaults(document)).toEqual([]);
    const { paths } = withTags(document, isAuth);
    const described = Object.entries<any>(paths).map(([path, item]) => [path, Object.keys(item)]);
    expect(Object.fromEntries(described)).toEqual(ROUTES);
  }
});

test("the routes of authentication are at the root of the service in both versions", () => {
  const { url } = client.service();
  for (const { servers, paths } of Object.values(documents)) {
    expect(servers).toEqual([{ url }]);
    expect(paths["/auth/login"].post).toBeDefined();
  }
});

test("if another service issues the tokens, the routes are neither served nor described", async () => {
  expect((await foreign.api("/openapi.json")).status).toBe(404);
  expect((await foreign.api("POST /auth/login", { body: {} })).status).toBe(404);
});

test("a path that is not in the table is not served", async () => {
  for (const path of [
    "/auth",
    "/auth/unknown",
    "/auth/login/",
    "/api/auth",
    "/api/mfa/unknown",
    "/auth/saml/x/callback",
  ])
    expect([path, (await client.api(`POST ${path}`, { body: {} })).status]).toEqual([path, 404]);
});

test.each(Object.entries(TABLE))("%s requires its credential, and is described so", async (key, { credential }) => {
  const [method, path] = splitKey(key);
  const { status } = await client.api(
    `${method} ${example(path)}`,
    ["POST", "PATCH"].includes(method) ? { body: {} } : {},
  );
  // 404: the provider in the path is unknown. 415: the body must be a form.
  if (credential === "none") expect([200, 400, 404, 415]).toContain(status);
  else expect(status).toBe(401);
  const { security } = documents[1].paths[path][method.toLowerCase()];
  expect(security).toEqual(credential === "none" ? [] : undefined);
});

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

describe.each(Object.entries(ROUTES))("%s", (template, methods) => {
  const path = example(template);
  const served = methods.flatMap((method) => (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()]));
  const allow = [...served, "OPTIONS"].join(", ");

  test(`allows ${allow}, and sends Allow`, async () => {
    const { status, headers, text } = await client.api(`OPTIONS ${path}`);
    expect([status, headers.get("allow"), text]).toEqual([204, allow, ""]);
    for (const method of METHODS.filter((name) => !served.includes(name))) {
      const refused = await client.api(`${method} ${path}`, { as: "ada" });
      expect([method, refused.status, refused.headers.get("allow")]).toEqual([method, 405, allow]);
      expect(refused.headers.get("cache-control")).toBe("no-store");
    }
  });

  test.skipIf(!methods.includes("get"))("HEAD answers as GET does, without a body", async () => {
    const [get, head] = [
      await client.api(`GET ${path}`, { as: "ada" }),
      await client.api(`HEAD ${path}`, { as: "ada" }),
    ];
    expect([head.status, head.text]).toEqual([get.status, ""]);
    expect(head.headers.get("cache-control")).toBe(get.headers.get("cache-control"));
  });
});

type Client = typeof client;
type Ask = (request: string, sent?: ApiSent) => Promise<ApiReply>;

/** Credentials must not be cached by anyone but the client; public keys may be. */
const asker =
  ({ api }: Client, seen: Seen): Ask =>
  async (request, sent) => {
    const reply = await api(request, sent);
    seen.note(request, reply);
    if (!request.includes("jwks")) expect(reply.headers.get("cache-control"), request).toBe("no-store");
    return reply;
  };

const login = (username: string) => ({ body: { username, password: PASSWORD } });
const cookieOf = ({ headers }: ApiReply) => ({ cookie: headers.get("set-cookie")!.split(";")[0]! });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test("every response matches its description, and every described response occurs", async () => {
  const document = withTags(documents[1], isAuth);
  const seen = new Seen(document);
  const ask = asker(client, seen);
  await signIn(ask);
  await useSession(ask);
  await useSessions(ask);
  await useKeys(ask);
  await sendBadBodies(ask);
  await sendBadCredentials(ask);
  await mails.use(ask);
  await usePasskeys(ask);
  await useAdministration(ask);
  for (const request of ["POST /auth/admin/users", "PATCH /auth/admin/users/2"])
    await sendBadBody(ask, request, bearer(client.service().token("admin")));
  await useSecondFactor(ask);
  const newcomer = { name: "Ina", email: "ina@test.example", password: PASSWORD };
  await asker(confirming, seen)("POST /auth/register", { body: newcomer });
  await asker(confirming, seen)("POST /auth/email", { as: "ada", body: { email: "ada2@test.example" } });
  await asker(closed, seen)("POST /auth/register", { body: newcomer });
  const acceptance = { token: "t", name: "Ina", password: PASSWORD };
  await asker(closed, seen)("POST /auth/invitations/accept", { body: acceptance });
  await useAllAttempts(asker(throttled, seen));
  await providers.use(client, seen);
  expect(seen.faults).toEqual([]);
  // Statuses of every route: over the limit, without the database.
  const always = / (429|503|504)$/;
  const without = (answers: readonly string[]) => answers.filter((answer) => !always.test(answer));
  expect(without(seen.answers)).toEqual(without(documented(document)));
  expect(seen.missingHeaders.filter((missing) => !/ (429|503|504): /.test(missing))).toEqual([]);
});

async function signIn(ask: Ask): Promise<void> {
  const { json: tokens } = await ask("POST /auth/login", login("ada"));
  await ask("POST /auth/refresh", { body: { refreshToken: tokens.refreshToken } });
  await ask("POST /auth/refresh", { body: { refreshToken: "x" } });
  await ask("POST /auth/login", { body: { username: "ada", password: "wrong" } });
  await ask("POST /auth/login", login("carol"));
  const dora = { name: "Dora", email: "dora@test.example", password: PASSWORD };
  const { json: registered } = await ask("POST /auth/register", { body: { ...dora, age: 36, username: "dora" } });
  await ask("POST /auth/register", { body: dora });
  const headers = bearer(registered.accessToken);
  await ask("POST /auth/email", { headers, body: { email: "ada@example.com" } });
  await ask("POST /auth/email", { headers, body: { email: "dora2@test.example" } });
  const body = { oldPassword: PASSWORD, newPassword: "Another-Horse-8!" };
  await ask("POST /auth/password", { headers, body: { ...body, oldPassword: "wrong" } });
  const { json: changed } = await ask("POST /auth/password", { headers, body });
  await ask("POST /auth/logout", { headers: bearer(changed.accessToken) });
  await ask("GET /.well-known/jwks.json");
}

async function useSession(ask: Ask): Promise<void> {
  await ask("GET /csrf-token");
  const headers = cookieOf(await ask("POST /api/auth/login", login("ada")));
  await ask("GET /api/auth/me", { headers });
  await ask("GET /csrf-token", { headers });
  await ask("POST /auth/logout", { headers });
  await ask("POST /auth/email", { headers, body: {} });
  await ask("POST /auth/password", { headers, body: {} });
  await ask("POST /api/mfa/enable", { headers });
  const origin = "https://elsewhere.example";
  const key = client.service().service.tokens.issueKey("service_role");
  await ask("GET /api/auth/me", { headers: { ...headers, origin, "x-api-key": key } });
  await ask("POST /api/auth/login", { ...login("ada"), headers: { origin } });
  await ask("POST /api/auth/logout", { headers: { ...headers, origin } });
  await ask("POST /api/auth/logout", { headers });
  await ask("POST /api/auth/logout", { headers });
  await ask("GET /api/auth/me", { headers });
  await ask("GET /csrf-token", { headers });
  await ask("POST /api/auth/login", { body: { username: "ada", password: "wrong" } });
}

async function useSessions(ask: Ask): Promise<void> {
  const { json } = await ask("POST /auth/login", login("bob"));
  const headers = bearer(json.accessToken);
  await ask("GET /auth/me", { headers });
  await sendBadBody(ask, "POST /auth/logout", headers);
  const cookie = cookieOf(await ask("POST /api/auth/login", login("bob")));
  await ask("GET /auth/me", { headers: cookie });
  const { data } = (await ask("GET /auth/sessions", { headers })).json;
  const [current] = data.filter(({ isCurrent }: { isCurrent: boolean }) => isCurrent);
  for (const id of [UNKNOWN, "x", current.id]) await ask(`DELETE /auth/sessions/${id}`, { headers });
  const { csrfToken } = (await ask("GET /csrf-token", { headers: cookie })).json;
  await ask("POST /auth/logout", { headers: { ...cookie, "x-csrf-token": csrfToken }, body: { scope: "local" } });
}

async function useKeys(ask: Ask): Promise<void> {
  const { json } = await ask("POST /auth/keys", { as: "bob", body: { name: "a program", expiresIn: 3600 } });
  await ask("POST /auth/keys", { as: "bob", body: { name: "one too many" } });
  await ask("GET /auth/keys", { as: "bob" });
  await ask(`GET /auth/keys/${json.id}`, { as: "bob" });
  for (const method of ["GET", "DELETE"]) {
    await ask(`${method} /auth/keys/${UNKNOWN}`, { as: "bob" });
    await ask(`${method} /auth/keys/x`, { as: "bob" });
    await ask(`${method} /auth/keys/${json.id}`, { headers: { "x-api-key": json.key } });
  }
  await ask("GET /auth/keys", { headers: { "x-api-key": json.key } });
  await ask(`DELETE /auth/keys/${json.id}`, { as: "bob" });
}

const POSTS_WITH_BODY = [
  ...[
    "/auth/login",
    "/auth/refresh",
    "/auth/register",
    "/auth/email",
    "/auth/password",
    "/auth/keys",
    "/api/auth/login",
    "/auth/passkeys/options",
    "/auth/passkeys",
    "/auth/passkeys/challenge",
  ],
  ...["/api/mfa/enable", "/api/mfa/verify", "/api/mfa/backup-codes", "/api/mfa/disable"],
  ...[
    "/auth/federated/token",
    "/auth/identities",
    "/auth/forgot",
    "/auth/reset",
    "/auth/confirm/send",
    "/auth/confirm",
    "/auth/email/undo",
    "/auth/invitations/accept",
    "/auth/login/mail",
    "/auth/login/link",
    "/auth/login/code",
  ],
];

async function sendBadBodies(ask: Ask): Promise<void> {
  // A recent sign-in enables a factor without a body.
  const headers = bearer(client.service().token("bob", { signedInAt: 0 }));
  for (const path of POSTS_WITH_BODY) {
    await ask(`POST ${path}`, { headers, body: {} });
    await sendBadBody(ask, `POST ${path}`, headers);
  }
}

async function sendBadBody(ask: Ask, request: string, headers: Readonly<Record<string, string>>): Promise<void> {
  await ask(request, { headers, body: [] });
  await ask(request, { headers, body: { more: "x".repeat(BODY_LIMIT) } });
  await ask(request, { headers: { ...headers, "content-type": "text/plain" }, body: "a=b" });
}

/** Invalid credentials, and those of the service, which browsers must not have. */
async function sendBadCredentials(ask: Ask): Promise<void> {
  for (const [path, methods] of Object.entries(ROUTES)) {
    for (const method of methods) {
      const request = `${method.toUpperCase()} ${example(path)}`;
      await ask(request, { headers: bearer("x") });
      await ask(request, { as: "service", headers: { origin: "https://elsewhere.example" } });
    }
  }
}

async function usePasskeys(ask: Ask): Promise<void> {
  const { json } = await ask("POST /auth/register", {
    body: { name: "Dana", email: "dana@test.example", password: PASSWORD },
  });
  const headers = bearer(json.accessToken);
  const key = new Authenticator(client.service().url.replace("127.0.0.1", "localhost"));
  const create = async () => key.create((await ask("POST /auth/passkeys/options", { headers })).json);
  const added = await ask("POST /auth/passkeys", { headers, body: { credential: await create(), name: "Phone" } });
  await ask("POST /auth/passkeys", { headers, body: { credential: await create() } });
  await ask("GET /auth/passkeys", { headers });
  const path = `/auth/passkeys/${added.json.id}`;
  await ask(`PATCH ${path}`, { headers, body: { name: "My phone" } });
  const foreign = bearer(client.service().token("bob", { signedInAt: 0 }));
  for (const [method, end] of [
    ["PATCH", ""],
    ["POST", "/delete"],
  ] as const) {
    for (const id of [UNKNOWN, "x"])
      await ask(`${method} /auth/passkeys/${id}${end}`, { headers: foreign, body: { name: "x", password: PASSWORD } });
    await sendBadBody(ask, `${method} /auth/passkeys/${UNKNOWN}${end}`, foreign);
  }
  const { challenge } = (await ask("POST /auth/login", { body: { username: "dana@test.example", password: PASSWORD } }))
    .json;
  await ask("POST /auth/passkeys/challenge", { body: { challenge: "x" } });
  const options = (await ask("POST /auth/passkeys/challenge", { body: { challenge } })).json;
  await ask("POST /auth/login", { body: { challenge, passkey: key.get(options) } });
  const passkey = key.get((await ask("POST /auth/passkeys/challenge", { body: {} })).json);
  await ask(`POST ${path}/delete`, { headers, body: { password: PASSWORD, passkey } });
}

async function useSecondFactor(ask: Ask): Promise<void> {
  const headers = { authorization: `Bearer ${(await ask("POST /auth/login", login("bob"))).json.accessToken}` };
  const confirmation = { headers, body: { password: PASSWORD } };
  for (const path of ["/api/mfa/backup-codes", "/api/mfa/disable"]) await ask(`POST ${path}`, confirmation);
  const { json } = await ask("POST /api/mfa/enable", { headers });
  const verified = await ask(`POST /api/mfa/verify?code=${appCode(json.secret, Date.now())}`, { headers });
  const codes: string[] = verified.json.backupCodes;
  await ask("POST /api/mfa/enable", { headers });
  await ask("POST /auth/login", login("bob"));
  await ask("POST /api/auth/login", login("bob"));
  for (const path of ["/api/mfa/backup-codes", "/api/mfa/disable"]) {
    await ask(`POST ${path}`, { headers, body: { password: "wrong" } });
    const { json } = await ask(`POST ${path}`, { headers, body: { password: PASSWORD, code: codes[0] } });
    codes.splice(0, codes.length, ...(json.backupCodes ?? []));
  }
}

async function useAllAttempts(ask: Ask): Promise<void> {
  const wrong = { body: { username: "ada", password: "wrong" } };
  await ask("POST /auth/login", wrong);
  for (const path of ["/auth/login", "/api/auth/login"]) {
    const { status, headers } = await ask(`POST ${path}`, wrong);
    expect([status, headers.get("retry-after")]).toEqual([429, expect.stringMatching(/^\d+$/)]);
  }
}

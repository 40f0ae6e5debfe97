import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";

const OLD = "Correct-Horse-7!";
const NEW = "Another-Horse-9?";
const server = await startMailServer();
const client = useService({
  ...server.settings,
  mailsPerAddress: 1000,
  AUTH_RETURN_ORIGINS: "https://app.example",
});

/** Without a worker, so that no e-mail is sent. */
const unsent = useService({ ...server.settings, TASK_CONCURRENCY: "0" });

const MESSAGE = '{"message":"an e-mail is on its way to this address"}';

let count = 0;
/** A new user for one test. */
async function newUser() {
  const email = `dora${++count}@test.example`;
  const { json } = await sendJson(client, "/auth/register", { name: "Dora", email, password: OLD });
  return { email, id: String(json.user.id), headers: { authorization: `Bearer ${json.accessToken}` }, ...json };
}

const forgot = (email: unknown, more: object = {}, headers = {}) =>
  sendJson(client, "/auth/forgot", { email, ...more }, headers);
const reset = (token: string, password = NEW, more: object = {}) =>
  sendJson(client, "/auth/reset", { token, password, ...more });
const login = async (username: string, password: string) =>
  (await sendJson(client, "/auth/login", { username, password })).status;
const reads = async (headers: Record<string, string>) => (await client.send("/users/1", { headers })).status;

/** The token of a new e-mail. */
async function tokenFor(email: string, more?: object) {
  expect((await forgot(email, more)).status).toBe(202);
  return linkIn(await server.next(email, /^Reset/)).token;
}

/** A form as a browser sends it. */
const sendForm = (path: string, fields: Record<string, string>, headers: Record<string, string> = {}) =>
  client.send(path, {
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      accept: "text/html",
      origin: client.service().url,
      ...headers,
    },
    body: new URLSearchParams(fields).toString(),
  });

describe("POST /auth/forgot", () => {
  test("sends an e-mail with both parts, and a link that begins with the URL of the service", async () => {
    const { email } = await newUser();
    const { status, json } = await forgot(email, {}, { "x-forwarded-host": "evil.example" });
    expect([status, json]).toEqual([202, { message: "an e-mail is on its way to this address" }]);
    const mail = await server.next(email);
    expect(mail.subject).toBe("Reset your password");
    expect(mail.headers.get("from")).toBe("Example <no-reply@test.example>");
    expect(mail.headers.get("auto-submitted")).toBe("auto-generated");
    const { url, token } = linkIn(mail);
    expect(url).toBe(`${client.service().url}/auth/link?token=${token}`);
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(mail.html).toContain(`href="${url}"`);
    expect(mail.text).toContain("valid for 60 minutes");
  });

  test("answers every address alike, with the same statements and no hash, whether it has an account or not", async () => {
    const verify = vi.spyOn(argon2, "verify");
    const hash = vi.spyOn(argon2, "hash");
    const { database, service } = unsent.service();
    await database.owner.query("update auth_private.accounts set email_confirmed_at = now() where user_id = 2");
    const answers = [];
    // Unconfirmed, confirmed, disabled, unknown. No e-mail is sent, so that all statements are those of the request.
    for (const email of ["ada", "bob", "carol", "stranger"].map((name) => `${name}@example.com`)) {
      const before = service.databaseWaits();
      const { status, text, headers } = await sendJson(unsent, "/auth/forgot", { email });
      answers.push([status, text, headers.get("content-length"), service.databaseWaits() - before]);
    }
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify([202, MESSAGE, String(MESSAGE.length), 1])]),
    );
    const { rows } = await database.owner.query("select kind, count(*)::integer from auth_private.mails group by 1");
    expect(rows).toEqual([{ kind: "reset", count: 4 }]);
    expect([verify.mock.calls, hash.mock.calls]).toEqual([[], []]);
    vi.restoreAllMocks();
  });

  test("every address gets one e-mail, which says what is so", async () => {
    const { email: known } = await newUser();
    const { email: disabled, id } = await newUser();
    await client.sql("update auth_private.accounts set disabled_at = now() where user_id = $1", id);
    const subjects = [];
    for (const email of [known, disabled, "stranger@test.example"]) {
      await forgot(email);
      subjects.push((await server.next(email)).subject);
    }
    expect(subjects).toEqual([
      "Reset your password",
      "This account is disabled",
      "There is no account with this address",
    ]);
    const others = server.mails.filter(({ to }) => [known, disabled, "stranger@test.example"].includes(to[0]!));
    expect(others).toEqual([]);
  });

  test("sends to the address of the account, not to another spelling of it", async () => {
    const { email } = await newUser();
    await forgot(email.toUpperCase());
    expect((await server.next(email)).to).toEqual([email]);
  });

  test.each([
    ["no address", "is required"],
    [7, "must be a string"],
    ["a b@test.example", "must be a valid address"],
    ["ann@test.example\r\nBcc: eve@test.example", "must be a valid address"],
    ["ann@test.example, eve@test.example", "must be a valid address"],
  ])("refuses %j", async (email, message) => {
    const { status, text } = await forgot(email === "no address" ? undefined : email);
    expect([status, text]).toEqual([400, expect.stringContaining(message)]);
  });

  test("refuses to continue at the page of another origin", async () => {
    for (const returnTo of ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]) {
      const { status, json } = await forgot("ann@test.example", { returnTo });
      expect([status, json.error.message]).toEqual([400, expect.stringContaining("AUTH_RETURN_ORIGINS")]);
    }
  });
});

describe("POST /auth/reset", () => {
  test("sets the password, ends all that was issued, and confirms the e-mail", async () => {
    const { email, id, headers, refreshToken } = await newUser();
    const key = await sendJson(client, "/auth/keys", { name: "mine" }, headers);
    expect((await reset(await tokenFor(email))).json).toEqual({ message: "the password is changed: sign in with it" });
    expect(await reads(headers)).toBe(401);
    // The account may be one that another person had registered.
    expect(await reads({ "x-api-key": key.json.key })).toBe(401);
    expect((await sendJson(client, "/auth/refresh", { refreshToken })).status).toBe(401);
    expect([await login(email, OLD), await login(email, NEW)]).toEqual([401, 200]);
    const [account] = await client.sql("select email_confirmed_at from auth_private.accounts where user_id = $1", id);
    expect(account!.email_confirmed_at).not.toBeNull();
    const events = await client.sql(
      "select event from auth_private.security_events where user_id = $1 order by id",
      id,
    );
    expect(events.map(({ event }) => event)).toEqual(
      expect.arrayContaining(["password_reset", "email_confirmed", "password_changed"]),
    );
  });

  test("keeps API keys if the e-mail was confirmed before", async () => {
    const { email, id, headers } = await newUser();
    const key = await sendJson(client, "/auth/keys", { name: "mine" }, headers);
    await client.sql("update auth_private.accounts set email_confirmed_at = now() where user_id = $1", id);
    expect((await reset(await tokenFor(email))).status).toBe(200);
    expect(await reads({ "x-api-key": key.json.key })).toBe(200);
  });

  test("takes a token once, also of two requests at the same time", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email);
    const statuses = (await Promise.all([reset(token), reset(token)])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 401]);
    expect((await reset(token)).json.error).toMatchObject({ code: "INVALID_TOKEN" });
  });

  test("of two e-mails, both links are valid until one of them is used", async () => {
    const { email } = await newUser();
    const [first, second] = [await tokenFor(email), await tokenFor(email)];
    expect((await reset(first)).status).toBe(200);
    expect((await reset(second)).status).toBe(401);
  });

  test("a weak password leaves the link valid", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email);
    const { status, json } = await reset(token, "short");
    expect([status, json.error.code]).toEqual([400, "VALIDATION_ERROR"]);
    expect((await reset(token)).status).toBe(200);
  });

  test("the database has only the hash of the token, and the task only an id", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email);
    const [found] = await client.sql(
      "select encode(token_hash, 'hex') as hash, row_to_json(t)::text as row from auth_private.one_time_tokens t where email = $1",
      email,
    );
    expect(found!.hash).toBe(createHash("sha256").update(token).digest("hex"));
    expect(found!.row).not.toContain(token);
    await expect.poll(() => client.sql("select id from auth_private.mails where email = $1", email)).toEqual([]);
  });

  test("is refused after the e-mail has changed, after a change of the password, and for a disabled account", async () => {
    const changed = await newUser();
    const first = await tokenFor(changed.email);
    await sendJson(client, "/auth/email", { email: `new${changed.email}` }, changed.headers);
    expect((await reset(first)).status).toBe(401);

    const other = await newUser();
    const second = await tokenFor(other.email);
    await sendJson(client, "/auth/password", { oldPassword: OLD, newPassword: NEW }, other.headers);
    expect((await reset(second)).status).toBe(401);

    const disabled = await newUser();
    const third = await tokenFor(disabled.email);
    await client.sql("update auth_private.accounts set disabled_at = now() where user_id = $1", disabled.id);
    expect((await reset(third)).status).toBe(401);
  });
});

describe("the page of a link", () => {
  test("GET shows a form, and changes nothing however often it is opened", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email);
    for (let i = 0; i < 3; i++) {
      const { status, headers, text } = await client.send(`/auth/link?token=${token}`, {
        headers: { accept: "text/html" },
      });
      expect([status, headers.get("referrer-policy"), headers.get("cache-control")]).toEqual([
        200,
        "no-referrer",
        "no-store",
      ]);
      expect(text).toContain('<form method="post" action="/auth/link">');
      // Icons name the namespace of SVG, which nothing loads.
      expect(text.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/<script|https?:\/\//);
    }
    expect((await reset(token)).status).toBe(200);
  });

  test("the form sets the password, and continues at a listed URL", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email, { returnTo: "https://app.example/welcome?a=b" });
    const refused = await sendForm("/auth/link", { token, password: "short" });
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('aria-invalid="true"')]);
    const { status, text } = await sendForm("/auth/link", { token, password: NEW });
    expect([status, text]).toEqual([
      200,
      expect.stringContaining('href="/auth/sign-in?return_to=https%3A%2F%2Fapp.example%2Fwelcome%3Fa%3Db"'),
    ]);
    expect(await login(email, NEW)).toBe(200);
    expect((await sendForm("/auth/link", { token, password: NEW })).status).toBe(401);
  });

  test("the form of a page of another site is refused", async () => {
    const { email } = await newUser();
    const token = await tokenFor(email);
    const { status } = await sendForm("/auth/link", { token, password: NEW }, { origin: "https://evil.example" });
    expect(status).toBe(403);
    expect(await login(email, OLD)).toBe(200);
  });

  test.each(["?token=abc", `?token=${"a".repeat(43)}`])("/auth/link%s is a page with an error", async (query) => {
    const { status, text } = await client.send(`/auth/link${query}`, { headers: { accept: "text/html" } });
    expect([status, text]).toEqual([401, expect.stringContaining("This link does not work")]);
  });
});

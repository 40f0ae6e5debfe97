import { describe, expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../../db/cluster/embedded.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { type Fields, visit } from "../../support/visit.ts";

const PASSWORD = "Correct-Horse-7!";
const server = await startMailServer();
const shared = { ...server.settings, mailsPerAddress: 1000, GRAPHQL_DOCUMENTS: "none" };
/** Milliseconds by which the clock of the service is ahead. */
let later = 0;
const client = useService({ ...shared, AUTH_RETURN_ORIGINS: "https://app.example" }, () => Date.now() + later);
const closed = useService({
  ...shared,
  SIGNUP: "invite",
  AUTH_PAGES_URL: "https://app.example/#/account/",
});

const port = String(await findFreePort());
/** Below the path of a proxy. */
const below = useService({ ...shared, PORT: port, BASE_URL: `http://127.0.0.1:${port}/v1` });

const PATHS = [
  "/auth/sign-in",
  "/auth/sign-in/e-mail",
  "/auth/sign-up",
  "/auth/forgot-password",
  "/auth/confirm-e-mail",
];

let count = 0;
async function newUser() {
  const email = `hal${++count}@test.example`;
  const { json } = await sendJson(client, "/auth/register", { name: "Hal", email, password: PASSWORD });
  return { email, token: json.accessToken as string };
}

/** The cookie of a new session, and the token of its forms. */
async function signIn(username: string) {
  const { status, cookie } = await visit(client, "/auth/sign-in", { username, password: PASSWORD });
  expect(status).toBe(303);
  const { text } = await visit(client, "/auth/account", null, { cookie });
  return { cookie, csrf: /name="csrf" value="([^"]+)"/.exec(text)![1]! };
}

test.each(["__proto__", "constructor", "<b>"])("the sign-in ignores an unknown reason: %s", async (why) => {
  const { status, text } = await visit(client, `/auth/sign-in?why=${encodeURIComponent(why)}`);
  expect([status, text.includes('role="alert"')]).toEqual([200, false]);
});

describe("the pages", () => {
  test.each([...PATHS, "/auth/done?of=reset"])(
    "%s loads only the style sheet, and the script for passkeys where it has a button for one, and is not stored",
    async (path) => {
      const hasScript = path === "/auth/sign-in";
      const { status, headers, text } = await visit(client, path);
      expect([status, headers.get("content-security-policy"), headers.get("cache-control")]).toEqual([
        200,
        "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'" +
          (hasScript ? "; script-src 'self'; connect-src 'self'" : ""),
        "no-store",
      ]);
      const scripts = text.match(/<script[^>]*>/g) ?? [];
      expect(scripts).toEqual(hasScript ? ['<script type="module" src="/assets/passkeys.js">'] : []);
      expect(text).not.toMatch(/<style| style=| on\w+=/);
      expect(text).toContain('<html lang="en">');
    },
  );

  test("a sign-in sets the cookie of the contract, and continues without sending the form again", async () => {
    const { status, headers, location } = await visit(client, "/auth/sign-in", { username: "ada", password: PASSWORD });
    expect([status, location]).toEqual([303, "/auth/account"]);
    expect(headers.get("set-cookie")).toMatch(
      /^SESSION=[\w-]+; Path=\/; HttpOnly; Secure; SameSite=Strict; Max-Age=1800$/,
    );
  });

  test("an unknown user and a wrong password get the same page", async () => {
    const [known, unknown] = await Promise.all(
      ["bob", "rob"].map(async (username) => {
        const { status, text } = await visit(client, "/auth/sign-in", { username, password: "Wrong-Horse-7!" });
        return [status, text.replaceAll(`"${username}"`, "")];
      }),
    );
    expect(known).toEqual(unknown);
    expect(known![0]).toBe(401);
  });

  test("a request for an e-mail continues in the same way for every address", async () => {
    const { email } = await newUser();
    for (const path of ["/auth/forgot-password", "/auth/confirm-e-mail", "/auth/sign-in/e-mail"]) {
      const answers = [];
      for (const address of [email, "stranger@test.example"]) {
        const { status, text, location } = await visit(client, path, { email: address });
        const next = await visit(client, location!);
        answers.push([
          ...[status, text.replace(/\?[^<]+/, ""), location!.split("?")[0], next.status],
          next.text.replaceAll(address, "").replace(/(to" value=")[^"]+/, ""),
        ]);
        // URLs are logged.
        expect(location).not.toContain(address.split("@")[0]);
      }
      expect(answers[0]).toEqual(answers[1]);
      expect(answers[0]![2]).toMatch(/^\/auth\/(done|sign-in\/e-mail\/code)$/);
    }
  });

  test("a form never has a password in it again, and keeps everything else", async () => {
    const fields = { name: 'Hal "2000"', email: "hal@test", password: "secret-Horse-7!" };
    const { status, text } = await visit(client, "/auth/sign-up", fields);
    expect([status, text]).toEqual([400, expect.stringContaining('value="Hal &#34;2000&#34;"')]);
    expect(text).toContain("E-mail must be a valid address.");
    expect(text).not.toContain("secret-Horse-7!");
  });

  test("a sign-up names every mistake beside its field, the focus is in the first one, and an e-mail that is taken is one", async () => {
    const { text } = await visit(client, "/auth/sign-up", { name: "", email: "hal9@test.example", password: "short" });
    expect(text).toContain('id="name-fault">Name is required.');
    expect(text).toMatch(/id="password-fault">Password must have at least 12 characters,/);
    expect(text.match(/autofocus/g)).toHaveLength(1);
    expect(text).toMatch(/id="name"[^>]* aria-invalid="true" aria-describedby="name-fault" autofocus/);
    const taken = await visit(client, "/auth/sign-up", { name: "Eve", email: "ada@example.com", password: PASSWORD });
    expect([taken.status, taken.text]).toEqual([
      409,
      expect.stringContaining('id="email-fault">Email already registered.'),
    ]);
  });

  test("failed sign-ins are limited as at POST /auth/login, and the page says when to try again", async () => {
    const { email } = await newUser();
    for (let i = 0; i < 5; i++) await visit(client, "/auth/sign-in", { username: email, password: "wrong" });
    const { status, text } = await visit(client, "/auth/sign-in", { username: email, password: PASSWORD });
    expect([status, text]).toEqual([429, expect.stringMatching(/Too many failed attempts.* Try again in \d+ minutes/)]);
  });

  test("a sign-in continues at a path of the service or a listed origin, and nowhere else", async () => {
    const ada = { username: "ada", password: PASSWORD };
    const to = async (url: string) => visit(client, `/auth/sign-in?return_to=${encodeURIComponent(url)}`, ada);
    expect((await to("/docs?a=b")).location).toBe("/docs?a=b");
    // A redirect to another origin would break the policy of the form.
    const listed = await to("https://app.example/welcome");
    expect([listed.status, listed.text]).toEqual([200, expect.stringContaining("0; url=https://app.example/welcome")]);
    for (const url of [
      "https://evil.example/",
      "//evil.example",
      "/\\evil.example",
      "/\t/evil.example",
      "javascript:alert(1)",
    ]) {
      const { status, cookies } = await to(url);
      expect([url, status, cookies]).toEqual([url, 400, []]);
    }
    // Its path would be a URL of another host.
    const tricky = await to("/..//evil.example");
    expect(tricky.location ?? "").not.toMatch(/^\/\//);
    expect(tricky.text).toContain(`0; url=${client.service().url}//evil.example`);
  });

  test("a form of a page of another origin is refused", async () => {
    for (const path of PATHS) {
      const fields = { username: "ada", password: PASSWORD, name: "Eve", email: "eve@test.example" };
      const { status, cookies } = await visit(client, path, fields, { origin: "https://evil.example" });
      expect([path, status, cookies]).toEqual([path, 403, []]);
    }
  });

  test("opening the link of an e-mail changes nothing, also not for a scanner that follows every link of the page", async () => {
    const { email } = await newUser();
    await visit(client, "/auth/forgot-password", { email });
    const { url, token } = linkIn(await server.next(email, /^Reset/));
    const path = url.slice(client.service().url.length);
    for (const method of ["GET", "HEAD", "GET"]) {
      const { status, headers } = await fetch(url, { method, headers: { accept: "text/html" } });
      expect([status, headers.get("referrer-policy")]).toEqual([200, "no-referrer"]);
    }
    const { text } = await visit(client, path);
    expect(text).not.toMatch(/<a /);
    const reset = await visit(client, "/auth/link", { token, password: "Another-Horse-9?" });
    expect([reset.status, reset.location]).toEqual([303, "/auth/done?of=reset"]);
  });
});

describe("the account", () => {
  test("leads to the sign-in and back if no user is signed in, and says if the session has ended", async () => {
    const first = await visit(client, "/auth/account/password");
    expect([first.status, first.location]).toEqual([303, "/auth/sign-in?return_to=%2Fauth%2Faccount%2Fpassword"]);
    const ended = await visit(client, "/auth/account", null, { cookie: `SESSION=${"a".repeat(43)}` });
    expect([ended.location, ended.cookies]).toEqual([
      "/auth/sign-in?return_to=%2Fauth%2Faccount&why=ended",
      ["SESSION="],
    ]);
  });

  test("opens once more after a link from another site, also below the path of a proxy", async () => {
    const headers = { "sec-fetch-site": "cross-site" };
    const behindProxy = await fetch(new URL("/auth/account?x=1", below.service().url), { headers });
    expect(await behindProxy.text()).toContain('content="0; url=/v1/auth/account?x=1"');
    expect((await visit(client, "/auth/account", null, headers)).text).toContain('content="0; url=/auth/account"');
  });

  test("no form without the token of this session changes anything", async () => {
    const [mine, other] = [(await newUser()).email, (await newUser()).email];
    const { cookie } = await signIn(mine);
    const { csrf: foreign } = await signIn(other);
    const changes: Readonly<Record<string, Fields>> = {
      "/auth/account/password": { oldPassword: PASSWORD, newPassword: "Another-Horse-9?" },
      "/auth/account/e-mail": { email: "eve@test.example" },
      "/auth/account/e-mail/confirm": {},
      "/auth/account/second-factor": {},
      "/auth/account/second-factor/code": { code: "123456" },
      "/auth/account/backup-codes": { password: PASSWORD },
      "/auth/account/sessions": { id: "others" },
      "/auth/account/keys": { name: "evil" },
      "/auth/account/keys/revoked": { id: "0b1c6f2e-3c1b-4f43-9d6c-0f7a54a3f1c2" },
      "/auth/account/identities": { provider: "acme" },
      "/auth/account/identities/unlinked": { id: "0b1c6f2e-3c1b-4f43-9d6c-0f7a54a3f1c2" },
      "/auth/sign-out": {},
    };
    for (const [path, fields] of Object.entries(changes))
      for (const csrf of [{}, { csrf: "" }, { csrf: foreign }] as Fields[]) {
        const { status } = await visit(client, path, { ...fields, ...csrf }, { cookie });
        expect([path, csrf, status]).toEqual([path, csrf, 403]);
      }
    const { text, status } = await visit(client, "/auth/account", null, { cookie });
    expect([status, text]).toEqual([200, expect.stringContaining(mine)]);
    expect(text).not.toContain("evil");
  });

  test("a change that needs a recent sign-in needs the password in the form once the sign-in is older", async () => {
    const { email } = await newUser();
    const { cookie, csrf } = await signIn(email);
    const form = async () => (await visit(client, "/auth/account/keys", null, { cookie })).text;
    expect(await form()).not.toContain('name="password"');
    later = 15 * 60_000;
    onTestFinished(() => {
      later = 0;
    });
    expect(await form()).toContain('name="password"');
    const create = (password: string) => visit(client, "/auth/account/keys", { csrf, name: "x", password }, { cookie });
    expect((await create("wrong")).text).toContain("Wrong password.");
    expect((await create(PASSWORD)).location).toBe("/auth/account");
  });

  test("what is shown once is in a cookie that only this user can read", async () => {
    const [one, two] = [await signIn((await newUser()).email), await signIn((await newUser()).email)];
    const made = await visit(client, "/auth/account/keys", { csrf: one.csrf, name: "ci" }, { cookie: one.cookie });
    const flash = made.cookies.find((each) => each.startsWith("__Host-account="))!;
    expect(made.headers.getSetCookie().at(-1)).toMatch(/; Path=\/; HttpOnly; Secure; SameSite=Strict; Max-Age=600$/);
    const shown = async ({ cookie }: typeof one) =>
      /cs_user_[\w-]{43}/.test((await visit(client, "/auth/account", null, { cookie: `${cookie}; ${flash}` })).text);
    expect([await shown(two), await shown(one)]).toEqual([false, true]);
  });

  test("a sign-out ends the session and deletes the cookie", async () => {
    const { cookie, csrf } = await signIn((await newUser()).email);
    const { location, cookies } = await visit(client, "/auth/sign-out", { csrf }, { cookie });
    expect([location, cookies]).toEqual(["/auth/done?of=signed-out", ["SESSION="]]);
    expect((await visit(client, "/auth/account", null, { cookie })).status).toBe(303);
  });
});

describe("with pages of the application", () => {
  test("those of the service are not served, and links in e-mails lead to the application", async () => {
    for (const path of [...PATHS, "/auth/account"])
      expect([path, (await visit(closed, path)).status]).toEqual([path, 404]);
    await sendJson(closed, "/auth/forgot", { email: "ada@example.com" });
    const { url } = await server
      .next("ada@example.com", /^Reset/)
      .then(({ text }) => ({ url: /https\S+/.exec(text)![0] }));
    expect(url).toMatch(/^https:\/\/app\.example\/#\/account\/reset\?token=([\w-]{43})&token_hash=\1&type=recovery$/);
  });

  test("the page of a link that is already in an e-mail still works, with the name of the service", async () => {
    const { status, text } = await visit(closed, "/auth/link?token=wrong");
    expect([status, text]).toEqual([401, expect.stringContaining('<p class="brand">127.0.0.1</p>')]);
  });
});

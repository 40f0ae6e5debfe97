import { describe, expect, test } from "vitest";
import { Authenticator } from "../../support/authenticator.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { appCode } from "../../support/totp.ts";
import { visit } from "../../support/visit.ts";

const PASSWORD = "Correct-Horse-7!";
const NEW = "Another-Horse-9?";
const server = await startMailServer();
const client = useService({ ...server.settings, mailsPerAddress: 1000 });
const silent = useService();

const FIREFOX = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0" };
const SAFARI = {
  "user-agent":
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
};

const post = (path: string, body: object, headers = {}) => sendJson(client, path, body, { ...FIREFOX, ...headers });
const login = async (username: string, password = PASSWORD, device = {}) =>
  (await post("/auth/login", { username, password }, device)).status;

let count = 0;
async function newUser() {
  const email = `gina${++count}@test.example`;
  const { json } = await post("/auth/register", { name: "Gina", email, password: PASSWORD });
  return { email, id: String(json.user.id), headers: { authorization: `Bearer ${json.accessToken}` } };
}

/** Sends an e-mail that arrives after all that were added before, and returns the subjects of these. */
async function subjectsTo(email: string): Promise<string[]> {
  await expect
    .poll(async () => client.sql("select from graphile_worker.jobs where task_identifier = 'mail'"), {
      timeout: 120_000,
    })
    .toEqual([]);
  return server.mails.filter(({ to }) => to.includes(email)).map(({ subject }) => subject);
}

describe("a notice", () => {
  test("says that the password has changed, when and from where", async () => {
    const { email, headers } = await newUser();
    await post("/auth/password", { oldPassword: PASSWORD, newPassword: NEW }, headers);
    const { subject, text } = await server.next(email);
    expect(subject).toBe("Your password has changed");
    expect(text).toMatch(/Time: \d{4}-\d\d-\d\d \d\d:\d\d UTC\r\nIP address: 127\.0\.0\.1/);
    expect(await subjectsTo(email)).toEqual([]);
  });

  test("is not sent for a change that is rolled back", async () => {
    const { email, id } = await newUser();
    const { owner } = client.service().database;
    await owner.query("begin");
    await owner.query("update auth_private.accounts set password_hash = password_hash || 'x' where user_id = $1", [id]);
    expect((await owner.query("select kind from auth_private.mails where email = $1", [email])).rows).toEqual([
      { kind: "password-changed" },
    ]);
    await owner.query("rollback");
    expect(await subjectsTo(email)).toEqual([]);
  });

  test("says that the second factor is removed, but not when the account is deleted", async () => {
    const { email, id, headers } = await newUser();
    const enable = async () => {
      const { json } = await post("/api/mfa/enable", { password: PASSWORD }, headers);
      return (await post("/api/mfa/verify", { code: appCode(json.secret, Date.now()) }, headers)).json.backupCodes[0];
    };
    const code = await enable();
    expect((await post("/api/mfa/disable", { password: PASSWORD, code }, headers)).status).toBe(200);
    expect((await server.next(email)).subject).toBe("Your second factor is removed");
    await client.sql("insert into auth_private.factors (user_id, secret, enabled_at) values ($1, 's', now())", id);
    await client.sql("delete from users where id = $1", id);
    expect(await subjectsTo(email)).toEqual([]);
  });

  test("says that a passkey is removed, but not when the account is deleted", async () => {
    const { email, id, headers } = await newUser();
    const key = new Authenticator(client.service().url.replace("127.0.0.1", "localhost"));
    const add = async () => {
      const credential = key.create((await post("/auth/passkeys/options", {}, headers)).json);
      return (await post("/auth/passkeys", { credential }, headers)).json;
    };
    const { id: passkey, backupCodes } = await add();
    const body = { password: PASSWORD, code: backupCodes[0] };
    expect((await post(`/auth/passkeys/${passkey}/delete`, body, headers)).status).toBe(204);
    expect((await server.next(email)).subject).toBe("Your second factor is removed");
    await add();
    await client.sql("delete from users where id = $1", id);
    expect(await subjectsTo(email)).toEqual([]);
  });

  test("says that a device is new, once, and not at the first sign-in", async () => {
    const { email } = await newUser();
    expect(await login(email)).toBe(200);
    expect(await subjectsTo(email)).toEqual([]);
    expect([await login(email, PASSWORD, SAFARI), await login(email, PASSWORD, SAFARI)]).toEqual([200, 200]);
    const { subject, text } = await server.next(email);
    expect([subject, text]).toEqual(["A sign-in with a new device", expect.stringContaining("Device: Safari")]);
    expect(await subjectsTo(email)).toEqual([]);
  });

  test("of a new device remembers 100 devices of a user, those that were used last", async () => {
    const { email, id } = await newUser();
    await client.sql(
      "insert into auth_private.known_devices select $1, 'old' || n, now() - n * interval '1 day' from generate_series(1, 100) as n",
      id,
    );
    expect(await login(email, PASSWORD, SAFARI)).toBe(200);
    const known = await client.sql("select device from auth_private.known_devices where user_id = $1", id);
    const names = known.map(({ device }) => device);
    expect([names.length, names.includes("old98"), names.includes("old99")]).toEqual([100, true, false]);
    expect(await subjectsTo(email)).toEqual(["A sign-in with a new device"]);
  });

  test("of one kind is sent to a mailbox at most five times in an hour, for all accounts together", async () => {
    const { email, headers } = await newUser();
    for (let i = 0; i < 7; i++) expect(await login(email, PASSWORD, { "user-agent": `robot${i}` })).toBe(200);
    expect(await subjectsTo(email)).toEqual(Array(5).fill("A sign-in with a new device"));
    server.mails.length = 0;
    await post("/auth/password", { oldPassword: PASSWORD, newPassword: NEW }, headers);
    expect(await subjectsTo(email)).toEqual(["Your password has changed"]);
  });

  test("is not added without MAIL_URL", async () => {
    const { json } = await sendJson(silent, "/auth/register", {
      name: "Hugo",
      email: "hugo@test.example",
      password: PASSWORD,
    });
    const headers = { authorization: `Bearer ${json.accessToken}` };
    expect(
      (await sendJson(silent, "/auth/password", { oldPassword: PASSWORD, newPassword: NEW }, headers)).status,
    ).toBe(200);
    expect(await silent.sql("select from auth_private.mails")).toEqual([]);
  });
});

describe("a change of the e-mail", () => {
  /** Changes the e-mail, and returns the token that the previous one gets. */
  async function change({ email, headers }: Awaited<ReturnType<typeof newUser>>) {
    const newEmail = `new-${email}`;
    expect((await post("/auth/email", { email: newEmail }, headers)).status).toBe(200);
    const mail = await server.next(email);
    expect([mail.subject, mail.text]).toEqual([
      "The e-mail of your account has changed",
      expect.stringContaining(`signs in with ${newEmail} from now on`),
    ]);
    return { newEmail, token: linkIn(mail).token };
  }

  test("is undone by the previous address: what a thief has ends, and the owner chooses a password", async () => {
    const user = await newUser();
    const key = await post("/auth/keys", { name: "of the thief" }, user.headers);
    const { newEmail, token } = await change(user);
    // The thief changes the password too.
    const { json } = await post("/auth/password", { oldPassword: PASSWORD, newPassword: NEW }, user.headers);
    await server.next(newEmail);
    expect((await post("/auth/email/undo", { token })).json.message).toContain("the change is undone");
    expect([await login(newEmail, NEW), await login(user.email, NEW)]).toEqual([401, 401]);
    const stolen: Record<string, string>[] = [
      { authorization: `Bearer ${json.accessToken}` },
      { "x-api-key": key.json.key },
    ];
    for (const headers of stolen) expect((await client.send("/users/1", { headers })).status).toBe(401);
    const reset = linkIn(await server.next(user.email)).token;
    expect((await post("/auth/reset", { token: reset, password: "Third-Horse-11!" })).status).toBe(200);
    expect(await login(user.email, "Third-Horse-11!")).toBe(200);
    expect((await client.sql("select email from users where id = $1", user.id))[0]!.email).toBe(user.email);
    expect((await post("/auth/email/undo", { token })).status).toBe(401);
    // The address of the thief hears nothing, and gets no link.
    expect(await subjectsTo(newEmail)).toEqual([]);
  });

  test("is undone by the form of the page, for 24 hours", async () => {
    const user = await newUser();
    const { token } = await change(user);
    const [row] = await client.sql(
      "select extract(epoch from expires_at - now()) / 3600 as hours from auth_private.one_time_tokens where email = $1",
      user.email,
    );
    expect(Math.ceil(Number(row!.hours))).toBe(24);
    const page = await visit(client, `/auth/link?token=${token}`);
    expect(page.text).toContain("Undo the change of your e-mail");
    expect((await visit(client, "/auth/link", { token })).location).toBe("/auth/done?of=undone");
  });

  test("keeps links that the new address receives from signing in and from a reset, until it cannot be undone any more", async () => {
    const user = await newUser();
    const { newEmail, token } = await change(user);
    const requested = async (path: string) => {
      expect((await post(path, { email: newEmail })).status).toBe(202);
      return server.next(newEmail);
    };
    for (const path of ["/auth/forgot", "/auth/login/mail"]) {
      const { subject, text } = await requested(path);
      expect([subject, text]).toEqual([
        "The e-mail of this account has changed recently",
        expect.not.stringMatching(/token=|^\d{6}$/m),
      ]);
    }
    expect(await login(newEmail)).toBe(200);
    await client.sql("update auth_private.one_time_tokens set expires_at = now() where user_id = $1", user.id);
    const reset = linkIn(await requested("/auth/forgot")).token;
    expect((await post("/auth/reset", { token: reset, password: NEW })).status).toBe(200);
    expect((await post("/auth/email/undo", { token })).status).toBe(401);
  });

  test("keeps no one from a reset who confirms the new address first, as the e-mail says", async () => {
    const user = await newUser();
    const { newEmail } = await change(user);
    expect((await post("/auth/forgot", { email: newEmail })).status).toBe(202);
    expect((await server.next(newEmail)).text).toContain("request an e-mail to confirm the address");
    expect((await post("/auth/confirm/send", { email: newEmail })).status).toBe(202);
    const { token } = linkIn(await server.next(newEmail, /^Confirm/));
    expect((await post("/auth/confirm", { token, password: PASSWORD })).status).toBe(200);
    expect((await post("/auth/forgot", { email: newEmail })).status).toBe(202);
    const reset = linkIn(await server.next(newEmail, /^Reset/)).token;
    expect((await post("/auth/reset", { token: reset, password: NEW })).status).toBe(200);
  });

  test("keeps a link from signing in that the address has received before", async () => {
    const user = await newUser();
    await post("/auth/login/mail", { email: user.email });
    const { token } = linkIn(await server.next(user.email));
    const { newEmail } = await change(user);
    expect((await post("/auth/email", { email: user.email }, user.headers)).status).toBe(200);
    await server.next(newEmail);
    expect((await post("/auth/login/link", { token })).status).toBe(401);
    await client.sql("update auth_private.accounts set email_confirmed_at = now() where user_id = $1", user.id);
    expect((await post("/auth/login/link", { token })).status).toBe(200);
  });

  test("by an operator sends no link to the previous address", async () => {
    const { email, id } = await newUser();
    await client.sql("select auth_private.change_email($1, $2, 'operator')", id, `moved-${email}`);
    expect(await subjectsTo(email)).toEqual([]);
  });
});

import { expect, test } from "vitest";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { useFactors } from "../../support/second-factor.ts";

const server = await startMailServer();
/** The clock of the service stands still, except when a test moves it. */
const { api, pass, sql } = useFactors({ ...server.settings, mailLinkTtl: 300 });
const SECOND = 1000;

async function mailFor(path: string, subject: RegExp) {
  expect((await api(`POST ${path}`, { body: { email: "ada@example.com" } })).status).toBe(202);
  return server.next("ada@example.com", subject);
}
const signIn = async (token: string) => (await api("POST /auth/login/link", { body: { token } })).status;

test("a link is valid for mailLinkTtl seconds, and its e-mail says for how long", async () => {
  const first = await mailFor("/auth/login/mail", /sign in/i);
  expect(first.text).toContain("valid for 5 minutes");
  pass(299 * SECOND);
  expect(await signIn(linkIn(first).token)).toBe(200);

  const second = linkIn(await mailFor("/auth/login/mail", /sign in/i));
  pass(300 * SECOND);
  expect(await signIn(second.token)).toBe(401);
  expect(await sql("select from auth_private.one_time_tokens where kind = 'sign-in'")).toHaveLength(1);
});

test("so are a link that resets the password, and a code", async () => {
  const reset = async (seconds: number) => {
    const { token } = linkIn(await mailFor("/auth/forgot", /^Reset/));
    pass(seconds * SECOND);
    return (await api("POST /auth/reset", { body: { token, password: "Another-Horse-9?" } })).status;
  };
  expect([await reset(300), await reset(299)]).toEqual([401, 200]);
  const code = async (seconds: number) => {
    const code = /^(\d{6})$/m.exec((await mailFor("/auth/login/mail", /sign in/i)).text)![1]!;
    pass(seconds * SECOND);
    return (await api("POST /auth/login/code", { body: { email: "ada@example.com", code } })).status;
  };
  expect([await code(300), await code(299)]).toEqual([401, 200]);
});

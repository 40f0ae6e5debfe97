import { expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { doctor } from "../../../parts/advisor/doctor/doctor.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { visit } from "../../support/visit.ts";

const PARTS = "-mail";
const client = useFactors({ PARTS });
const { service, api, signIn, sql } = client;

test.each([
  ["EMAIL_CONFIRM", "required"],
  ["EMAIL_CONFIRM", "claim"],
])("without the part, %s=%s ends a command and a start", async (name, value) => {
  const { exitCode, stderr } = await outcomeOf(doctor(["federated"], { PARTS, [name]: value, MAIL_URL: "keep" }));
  expect([exitCode, stderr]).toEqual([
    2,
    `EMAIL_CONFIRM=${value} needs the part mail: open it, or set EMAIL_CONFIRM=off\n`,
  ]);
});

test("its routes are neither served nor described", async () => {
  const headers = { authorization: `Bearer ${await signIn("ada")}` };
  const paths = [
    ...["/auth/forgot", "/auth/reset", "/auth/confirm", "/auth/confirm/send", "/auth/email/undo", "/auth/link"],
    ...["/auth/login/link", "/auth/login/code", "/auth/invitations", "/auth/invitations/accept"],
  ];
  for (const path of paths) {
    const { status } = await fetch(service().url + path, { method: "OPTIONS", headers });
    expect([path, status]).toEqual([path, 404]);
  }
  const { json } = await api("GET /openapi.json");
  expect(Object.keys(json.paths).filter((path) => paths.includes(path))).toEqual([]);
});

test("users sign up, sign in and change their e-mail, and no e-mail is added", async () => {
  const user = { name: "Eve", email: "eve@example.com", password: PASSWORD };
  expect((await api("POST /users", { body: user })).status).toBe(201);
  const login = await api("POST /auth/login", { body: { username: user.email, password: PASSWORD, mode: "token" } });
  const changed = await fetch(`${service().url}/auth/email`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${login.json.accessToken}` },
    body: JSON.stringify({ email: "eva@example.com" }),
  });
  expect(changed.status).toBe(200);
  expect(await sql("select kind from auth_private.mails")).toEqual([]);
});

test("a sign-out on a page continues at the sign-in: there is no page that says what has happened", async () => {
  const { cookie } = await visit(client, "/auth/sign-in", { username: "ada", password: PASSWORD });
  const { text } = await visit(client, "/auth/account", null, { cookie });
  const [, csrf] = /name="csrf" value="([^"]+)"/.exec(text)!;
  const { status, location } = await visit(client, "/auth/sign-out", { csrf: csrf! }, { cookie });
  expect([status, location]).toEqual([303, "/auth/sign-in"]);
});

test("/auth/v1 and the pages say that no e-mails are sent", async () => {
  const answerOf = async (request: string, body?: object) => {
    const { status, json } = await api(request, { as: "ada", ...(body && { body }) });
    return [status, json.msg];
  };
  const none = [422, "this service sends no e-mails: its operator has not set MAIL_URL, or has left out the part mail"];
  expect(await answerOf("POST /auth/v1/otp", { email: "ada@example.com" })).toEqual(none);
  expect(await answerOf("POST /auth/v1/recover", { email: "ada@example.com" })).toEqual(none);
  expect(await answerOf("POST /auth/v1/resend", { type: "signup", email: "ada@example.com" })).toEqual(none);
  const code = { type: "email", email: "ada@example.com", token: "123456" };
  expect(await answerOf("POST /auth/v1/verify", code)).toEqual(none);
  const { text } = await visit(client, "/auth/sign-in");
  expect([text.includes("Password"), text.includes("without a password")]).toEqual([true, false]);
  for (const path of ["/auth/forgot-password", "/auth/sign-in/e-mail"])
    expect((await visit(client, path)).status).toBe(503);
});

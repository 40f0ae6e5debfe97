import { Readable } from "node:stream";
import { createClient } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { user as userCommand } from "../../../cli/user.ts";
import { readConfig } from "../../support/config.ts";
import { useService } from "../../support/http-client.ts";
import { JWT_SECRET } from "../../support/service.ts";
import { visit } from "../../support/visit.ts";

const SETTINGS = { GRAPHQL_DOCUMENTS: "none", PASSWORD_RULES: "8,lower,digit" };
const client = useService(SETTINGS);

/** Long enough for these settings, too short for the default, and with two of its classes. */
const PASSWORD = "horse-42";
const FAULTS = ["password must have at least 8 characters", "password must have a digit"];

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  client.send(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
const admin = () => ({ authorization: `Bearer ${client.token("admin")}` });
const auth = () =>
  createClient(client.service().url, client.service().service.tokens.issueKey("anon"), {
    auth: { persistSession: false, autoRefreshToken: false },
  }).auth;

test.each([
  ["/auth/register", {}],
  ["/users", {}],
  ["/auth/admin/users", admin],
])("PASSWORD_RULES has the rules of POST %s, whose errors name them", async (path, as) => {
  const headers = typeof as === "function" ? as() : as;
  const email = `rules${path.replaceAll("/", "-")}@test.example`;
  const weak = await post(path, { name: "Vera", email, password: "horse" }, headers);
  expect(weak.status).toBe(400);
  for (const fault of FAULTS) expect(weak.text).toContain(fault);
  expect((await post(path, { name: "Vera", email, password: PASSWORD }, headers)).status).toBe(201);
});

test("they are the rules of supabase-js, whose error has the reasons", async () => {
  const email = "rules-wire@test.example";
  const weak = await auth().signUp({ email, password: "horse" });
  expect(weak.error).toMatchObject({ code: "weak_password", reasons: ["length", "characters"], status: 422 });
  expect(weak.error!.message).toBe("Password must have at least 8 characters and a digit");
  const { data, error } = await auth().signUp({ email, password: PASSWORD });
  expect([error, data.user?.email]).toEqual([null, email]);
});

test("they are the rules of a changed password", async () => {
  const { text } = await post("/auth/register", { name: "Ida", email: "rules-ida@test.example", password: PASSWORD });
  const headers = { authorization: `Bearer ${JSON.parse(text).accessToken}` };
  const weak = await post("/auth/password", { oldPassword: PASSWORD, newPassword: "horse-x" }, headers);
  expect(weak.status).toBe(400);
  for (const fault of FAULTS) expect(weak.text).toContain(`newPassword ${fault.slice("password ".length)}`);
  expect((await post("/auth/password", { oldPassword: PASSWORD, newPassword: "horse-43" }, headers)).status).toBe(200);
});

test("the page of sign-up says what they are, and refuses a password that breaks them", async () => {
  const path = "/auth/sign-up";
  expect((await visit(client, path)).text).toContain("At least 8 characters, with a lower case letter and a digit.");
  const signUp = (password: string) => visit(client, path, { name: "Noa", email: "rules-page@test.example", password });
  const weak = await signUp("horse");
  expect([weak.status, weak.text]).toEqual([400, expect.stringContaining("Password must have at least 8 characters")]);
  expect((await signUp(PASSWORD)).status).toBe(303);
});

test("the OpenAPI document has them for each new password, and none for the current one", async () => {
  const { schemas } = JSON.parse((await client.send("/openapi.json")).text).components;
  const description = "A new password. At least 8 characters, with a lower case letter and a digit.";
  const rules = { minLength: 8, maxLength: 128, description };
  expect(schemas.NewPassword).toMatchObject(rules);
  const { UserCreate, Registration, PasswordReset, PasswordChange } = schemas;
  for (const { properties } of [UserCreate, Registration, PasswordReset])
    expect(properties.password.$ref).toBe("#/components/schemas/NewPassword");
  expect(PasswordChange.properties.newPassword.$ref).toBe("#/components/schemas/NewPassword");
  expect(schemas.PasswordChange.properties.oldPassword.minLength).toBe(1);
  expect(schemas.Login.properties.password.minLength).toBe(1);
});

test("they are the rules of npx content-service user", async () => {
  const settings = { ...SETTINGS, DATABASE_URL: client.service().database.url, JWT_SECRET };
  const create = (password: string) =>
    userCommand(["create", "Cleo", "rules-cleo@test.example"], settings, () =>
      Readable.from(Buffer.from(`${password}\n`), { objectMode: false }),
    );
  await expect(create("horse")).rejects.toThrow(FAULTS.join("; "));
  expect(await create(PASSWORD)).toMatch(/^created user/);
});

test("a number alone requires no classes, and other classes and numbers are refused at start", () => {
  expect(readConfig({ PASSWORD_RULES: "15" }).passwordRules).toEqual({ length: 15, classes: [] });
  const message =
    "PASSWORD_RULES must be a number from 1 to 128, and any of upper, lower, digit, special: 12,upper,digit";
  for (const text of ["8,upper,emoji", "0", "129", "upper", "upper,8", "8,8"])
    expect(() => readConfig({ PASSWORD_RULES: text })).toThrow(message);
});

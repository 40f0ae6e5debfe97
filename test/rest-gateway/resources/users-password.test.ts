import { Writable } from "node:stream";
import pino from "pino";
import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { allUsers, newEmail, userMaker } from "./users.ts";

const lines: string[] = [];
const log = pino(
  { level: "trace" },
  new Writable({
    write(line, _, done) {
      lines.push(String(line));
      done();
    },
  }),
);

const client = useResources({}, "", log);
const { api, failure, sql } = client;
const user = userMaker(client);
const PASSWORD = "Correct-Horse-7!";

const login = (username: string, password = PASSWORD) => api("POST /auth/login", { body: { username, password } });

describe("POST with a password creates an account", () => {
  test("that signs in with the e-mail in any case", async () => {
    const email = newEmail();
    const input = { name: "Grace", email, age: 85, password: PASSWORD };
    const { status, json, headers } = await api("POST /users", { body: input });
    expect([status, headers.get("location")]).toEqual([201, `/users/${json.id}`]);
    expect(Object.keys(json)).toEqual(["id", "name", "email", "age", "created_at", "updated_at"]);
    expect(json).toMatchObject({ name: "Grace", email, age: 85 });
    const answer = await login(email.toUpperCase());
    expect([answer.status, Object.keys(answer.json)]).toEqual([
      200,
      ["accessToken", "refreshToken", "expiresIn", "tokenType", "user"],
    ]);
    expect((await login(email, "Correct-Horse-8!")).status).toBe(401);
  });

  test("whose token changes that user", async () => {
    const made = await user({ password: PASSWORD });
    const { accessToken } = (await login(made.email)).json;
    const headers = { authorization: `Bearer ${accessToken}` };
    expect((await api(`PATCH /users/${made.id}`, { body: { age: 7 }, headers })).json.age).toBe(7);
    expect((await api("PATCH /users/1", { body: { age: 7 }, headers })).status).toBe(403);
  });

  test("in the selected form of records", async () => {
    const body = { name: "Grace", email: newEmail(), password: PASSWORD };
    const answer = await api("POST /users?fields=name", { body, prefer: "dialect=case" });
    expect([answer.status, answer.json]).toEqual([201, { name: "Grace" }]);
    const second = { ...body, email: newEmail() };
    const { status, json, headers } = await api("POST /api/v2/users", { body: second });
    expect([status, headers.get("location")]).toEqual([201, `/api/v2/users/${json.id}`]);
  });

  test("that signs in with a username too, for every caller", async () => {
    for (const as of ["ada", "admin", "service"] as const) {
      const { email } = await user({ password: PASSWORD, username: `grace.${as}` }, { as });
      expect((await login(`Grace.${as}`)).status).toBe(200);
      expect((await login(email)).status).toBe(200);
    }
  });
});

test("a user without a password has no account", async () => {
  const { email } = await user({ username: null });
  expect((await login(email)).status).toBe(401);
});

describe("it is rejected and creates no user", () => {
  const refused = async (given: object) => {
    const before = await allUsers(client);
    const body = { name: "Grace", email: newEmail(), password: PASSWORD, ...given };
    const { status, json } = await api("POST /users", { body });
    expect(await allUsers(client)).toBe(before);
    const { code, details } = json.error;
    return [status, code, details.map(({ field, message }: any) => ({ field, message }))];
  };

  const INVALID = [400, "VALIDATION_ERROR"] as const;
  const TAKEN = [409, "RESOURCE_CONFLICT"] as const;
  const LENGTH = "password must have at least 12 characters";
  const UPPER = "password must have an upper case letter";
  const LOWER = "password must have a lower case letter";
  const DIGIT = "password must have a digit";
  const SPECIAL = "password must have a special character, such as ! or -";
  const USERNAME =
    "username must have 1 to 100 characters, without spaces, colons and @; without a username the e-mail is used";
  const UNSTORABLE = "username must not contain NUL or an unpaired surrogate";
  const ALONE = "username requires a password";

  test.each<[given: object, status: number, code: string, ...messages: string[]]>([
    [{ password: "Short-7!" }, ...INVALID, LENGTH],
    [{ password: "correct-horse-7!" }, ...INVALID, UPPER],
    [{ password: "CORRECT-HORSE-7!" }, ...INVALID, LOWER],
    [{ password: "Correct-Horse-x!" }, ...INVALID, DIGIT],
    [{ password: "CorrectHorse77x" }, ...INVALID, SPECIAL],
    [{ password: `Correct-Horse-7!${"x".repeat(128)}` }, ...INVALID, "password must have at most 128 characters"],
    [{ password: "" }, ...INVALID, LENGTH, UPPER, LOWER, DIGIT, SPECIAL],
    [{ password: null }, ...INVALID, "password must be a text"],
    [{ password: 7 }, ...INVALID, "password must be a text"],
    [{ password: ["Correct-Horse-7!"] }, ...INVALID, "password must be a text"],
    [{ username: "" }, ...INVALID, USERNAME],
    [{ username: "a b" }, ...INVALID, USERNAME],
    [{ username: "a:b" }, ...INVALID, USERNAME],
    [{ username: "a@b" }, ...INVALID, USERNAME],
    [{ username: "a".repeat(101) }, ...INVALID, USERNAME],
    [{ username: "a\0b" }, ...INVALID, UNSTORABLE],
    [{ username: "a\ud800b" }, ...INVALID, UNSTORABLE],
    [{ username: 7 }, ...INVALID, "username must be a text"],
    [{ username: {} }, ...INVALID, "username must be a text"],
    [{ username: "grace", password: undefined }, ...INVALID, ALONE],
    [{ username: "a b", password: undefined }, ...INVALID, ALONE],
    [{ username: 7, password: undefined }, ...INVALID, ALONE],
    [{ username: "ada" }, ...TAKEN, "username already taken"],
    [{ username: "ADA" }, ...TAKEN, "username already taken"],
    [{ email: "Ada@example.com" }, ...TAKEN, "email already registered"],
    [{ name: undefined }, 400, "MISSING_FIELD", "name is required"],
    [
      { name: " ", email: "grace", age: 151 },
      ...INVALID,
      "name must have 1 to 200 characters",
      "email must be a valid address",
      "age must be from 0 to 150",
    ],
  ])("for %j: %i %s", async (given, status, code, ...messages) => {
    const details = messages.map((message) => ({ field: message.split(" ")[0], message }));
    const answer = await refused(given);
    expect(answer).toEqual([status, code, expect.arrayContaining(details)]);
    expect(answer[2]).toHaveLength(details.length);
  });

  test("for the usernames that the OpenAPI document excludes", async () => {
    const { json } = await api("/openapi.json");
    const { maxLength, pattern } = json.components.schemas.UserCreate.properties.username;
    const isDescribed = (name: string) => name.length <= maxLength && RegExp(pattern, "u").test(name);
    for (const username of ["", "a b", "a\tb", "a\u007fb", "a:b", "a@b", "a".repeat(101), "é".repeat(100), "a.b-c_d"]) {
      const { status } = await api("POST /users", {
        body: { name: "Grace", email: newEmail(), username, password: PASSWORD },
      });
      expect([username, status === 201]).toEqual([username, isDescribed(username)]);
    }
  });
});

test("of concurrent requests with the same username one gets it", async () => {
  const sent = [1, 2, 3].map(() => {
    const body = { name: "Grace", email: newEmail(), username: "only.one", password: PASSWORD };
    return api("POST /users", { body });
  });
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.toSorted()).toEqual([201, 409, 409]);
});

test("PUT and PATCH reject password and username", async () => {
  const made = await user({ password: PASSWORD });
  const password = "Another-Horse-8!";
  const FAULTS = {
    password: "password cannot be changed here: use POST /auth/password",
    username: "username cannot be changed",
  };
  for (const given of [{ password }, { username: "grace" }, { password, username: "grace" }]) {
    const fields = Object.fromEntries(Object.entries(FAULTS).filter(([name]) => name in given));
    for (const [method, body] of [
      ["PATCH", given],
      ["PUT", { ...made, ...given }],
    ] as const) {
      const { status, json } = await api(`${method} /users/${made.id}`, { body });
      expect([status, json.error.code, json.error.fields]).toEqual([400, "VALIDATION_ERROR", fields]);
    }
  }
  expect((await login(made.email)).status).toBe(200);
  const strict = { body: { password }, prefer: "handling=strict" };
  expect((await failure(`PATCH /users/${made.id}`, strict)).slice(0, 2)).toEqual([400, "BAD_REQUEST"]);
});

test("no response and no log line contains a password or its hash", async () => {
  const secret = "Very-Secret-Horse-9!";
  const email = newEmail();
  const texts = [];
  for (const given of [{}, {}, { email: "no" }, { username: "ada" }, { username: 7 }, { age: "x" }, { name: null }]) {
    const body = { name: "Grace", email, password: secret, ...given };
    for (const path of ["/users", "/api/v2/users", "/users?fields=password"]) {
      texts.push((await api(`POST ${path}`, { body })).text);
    }
    texts.push((await api("POST /users", { body: [body] })).text);
  }
  texts.push((await api("POST /users", { body: `{"password":"${secret}",}` })).text);
  texts.push((await api("POST /users", { body: `{"name":"x","email":"y@z.example","password":"${secret}` })).text);
  texts.push((await api(`/users?keyword=${email}`)).text);
  expect(lines.length).toBeGreaterThan(20);
  expect([...texts, ...lines].filter((text) => /Secret-Horse|argon2/.test(text))).toEqual([]);
  expect(await sql("select count(*)::int from users where email = $1", email)).toEqual([{ count: 1 }]);
});

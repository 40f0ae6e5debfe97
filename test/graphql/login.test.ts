import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { data, errors, send } = useService();

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

const PASSWORD = "Correct-Horse-7!";
const login = (body: unknown) =>
  send("/auth/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
const problem = ({ json }: { json: any }) => ({ code: json.error.code, message: json.error.message });

describe("authentication rule 7, POST /auth/login", () => {
  test.each([
    ["ada", "1"],
    ["ADA", "1"],
    ["ada@example.com", "1"],
    ["Ada@EXAMPLE.com", "1"],
    ["bob", "2"],
    ["Bob@Example.Com", "2"],
    ["admin", "3"],
    ["admin@example.com", "3"],
  ])("%s", async (username, id) => {
    const { status, json, headers } = await login({ username, password: PASSWORD });
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(json).toEqual({
      accessToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      refreshToken: expect.any(String),
      expiresIn: 3600,
      tokenType: "Bearer",
      user: expect.objectContaining({ id: Number(id) }),
    });
    expect(await data("{ me { id } }", bearer(json.accessToken))).toEqual({ me: { id } });
    expect(await errors("{ me { id } }", bearer(json.refreshToken))).toEqual([
      "AUTH_REQUIRED: login required: the access token is not valid",
    ]);
  });

  test("gives the same 401 for a wrong password and an unknown user", async () => {
    const wrong = await login({ username: "ada", password: "Wrong-Horse-7!!" });
    const unknown = await login({ username: "unknown", password: PASSWORD });
    expect([wrong.status, unknown.status]).toEqual([401, 401]);
    expect(problem(wrong)).toEqual({ code: "AUTH_REQUIRED", message: "wrong username or password" });
    expect(problem(unknown)).toEqual(problem(wrong));
    expect(wrong.headers.get("cache-control")).toBe("no-store");
  });

  test("gives 403 for a disabled account, and only with the correct password", async () => {
    const right = await login({ username: "carol", password: PASSWORD });
    expect([right.status, problem(right)]).toEqual([
      403,
      { code: "PERMISSION_DENIED", message: "this account is disabled" },
    ]);
    const wrong = await login({ username: "carol", password: "Wrong-Horse-7!!" });
    expect([wrong.status, problem(wrong).message]).toEqual([401, "wrong username or password"]);
  });

  test.each([
    [{}, "username is required; password is required"],
    [{ username: "ada" }, "password is required"],
    [{ password: PASSWORD }, "username is required"],
    [{ username: "", password: PASSWORD }, /^username must be a string/],
    [{ username: "ada", password: "" }, /^password must be a string/],
    [{ username: "ada", password: 7 }, /^password must be a string/],
    [{ username: ["ada"], password: PASSWORD }, /^username must be a string/],
    [{ username: "x".repeat(255), password: PASSWORD }, /^username must be a string of 1 to 254 characters/],
    [{ username: "ada", password: "x".repeat(129) }, /^password must be a string of 1 to 128 characters/],
    [[], "the body must be a JSON object"],
    ["null", "the body must be a JSON object"],
    ['"ada"', "the body must be a JSON object"],
  ])("gives 400 for fields that are missing or not text: %.60j", async (body, message) => {
    const answer = await login(body);
    const { code, message: sent } = problem(answer);
    expect([answer.status, sent]).toEqual([400, expect.stringMatching(message)]);
    expect(code).toBe(String(message).includes("is required") ? "MISSING_FIELD" : "VALIDATION_ERROR");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test.each(["{", "", '{"username": "ada", }', "username=ada"])("gives 400 for malformed JSON: %s", async (body) => {
    const answer = await send("/auth/login", { method: "POST", headers: { "content-type": "application/json" }, body });
    expect([answer.status, problem(answer).code]).toEqual([400, "INVALID_JSON"]);
  });

  test("gives 400 for text that Postgres cannot store", async () => {
    for (const username of ["ada\0", "\ud800"]) {
      expect(await login({ username, password: PASSWORD })).toMatchObject({
        status: 400,
        json: { error: { code: "VALIDATION_ERROR" } },
      });
    }
  });

  test.each(["GET", "PUT", "DELETE"])("gives 405 with Allow: POST, OPTIONS for %s", async (method) => {
    const answer = await send("/auth/login", { method });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  });
});

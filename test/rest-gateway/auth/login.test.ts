import jwt from "jsonwebtoken";
import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";
import { JWT_SECRET } from "../../support/service.ts";

const PASSWORD = "Correct-Horse-7!";
const client = useService();
const login = (body: unknown, headers = {}) => sendJson(client, "/auth/login", body, headers);

describe("POST /auth/login", () => {
  test.each(["ada", "ADA", "ada@example.com", "Ada@EXAMPLE.com"])(
    "returns a token pair to %s with the right password",
    async (username) => {
      const { status, json, headers } = await login({ username, password: PASSWORD });
      expect([status, headers.get("cache-control")]).toEqual([200, "no-store"]);
      const { accessToken, refreshToken, ...rest } = json;
      const described = expect.objectContaining({ id: 1, username: "ada", email: "ada@example.com" });
      expect(rest).toEqual({ expiresIn: 3600, tokenType: "Bearer", user: described });
      const claims = jwt.verify(accessToken, JWT_SECRET) as jwt.JwtPayload;
      const expected = {
        sub: "1",
        name: "Ada Lovelace",
        role: "authenticated",
        permissions: [],
        iss: "content-service",
      };
      expect(claims).toMatchObject({ ...expected, type: "access", jti: expect.any(String), iat: expect.any(Number) });
      expect(claims.exp! - claims.iat!).toBe(3600);
      const refresh = jwt.verify(refreshToken, JWT_SECRET) as jwt.JwtPayload;
      expect(refresh).toMatchObject({ sub: "1", type: "refresh", jti: expect.any(String) });
      expect(refresh.exp! - refresh.iat!).toBe(7 * 24 * 3600);
      const { json: user } = await client.send("/users/1", { headers: { authorization: `Bearer ${accessToken}` } });
      expect(user.name).toBe("Ada Lovelace");
      expect(await client.data("{ me { id } }", { headers: { authorization: `Bearer ${accessToken}` } })).toEqual({
        me: { id: "1" },
      });
    },
  );

  test.each([
    ["/auth/login", () => ({ username: "ada", password: PASSWORD })],
    ["/api/auth/login", () => ({ username: "ada", password: PASSWORD })],
    ["/auth/refresh", (refreshToken: string) => ({ refreshToken })],
  ])("%s gives nothing for fields that it does not know", async (path, bodyOf) => {
    const account = () => client.sql("select to_jsonb(a) - 'last_login_at' as row from auth_private.accounts as a");
    const before = await account();
    const claimsFor = async (more: object) => {
      const { json: first } = await login({ username: "ada", password: PASSWORD });
      const { status, json } = await sendJson(client, path, { ...bodyOf(first.refreshToken), ...more });
      expect(status).toBe(200);
      const { accessToken, refreshToken, ...answer } = json;
      if (accessToken === undefined) return { answer };
      const { iat, exp, jti, sid, auth_time: signedIn, ...claims } = jwt.decode(accessToken) as jwt.JwtPayload;
      return { answer, claims, seconds: exp! - iat!, hasTime: typeof signedIn === "number" && signedIn <= iat! };
    };
    const unknown = {
      ...{
        role: "admin",
        permissions: ["all"],
        sub: "2",
        user_id: 2,
        id: 2,
        iss: "other",
        aud: "other",
        type: "refresh",
      },
      ...{ expiresIn: 1e9, expires_in: 1e9, app_metadata: { role: "admin" }, aal: "aal2", session_id: "x" },
    };
    expect(await claimsFor(unknown)).toEqual(await claimsFor({}));
    expect(await account()).toEqual(before);
  });

  test("returns the same response for a wrong password and an unknown user", async () => {
    const wrong = await login({ username: "ada", password: "Wrong-Horse-7!!" });
    const unknown = await login({ username: "unknown", password: "Wrong-Horse-7!!" });
    const comparable = ({ status, json, headers }: typeof wrong) => {
      const { requestId, timestamp, ...error } = json.error;
      return { status, error, keys: Object.keys(json), challenge: headers.get("www-authenticate") };
    };
    expect(comparable(wrong)).toEqual(comparable(unknown));
    expect(comparable(wrong)).toMatchObject({ status: 401, error: { message: "wrong username or password" } });
  });

  test.each(["ada%", " ada", "Ada Lovelace", "kay@test.example"])("finds no account by %j", async (username) => {
    // A user without an account.
    await client.sql("insert into users (name, email) values ('Kay', 'kay@test.example') on conflict do nothing");
    expect((await login({ username, password: PASSWORD })).status).toBe(401);
  });

  test("reports a disabled account only if the password is right", async () => {
    expect((await login({ username: "carol", password: PASSWORD })).status).toBe(403);
    expect((await login({ username: "carol", password: `${PASSWORD}?` })).status).toBe(401);
  });

  test.each<[string, unknown, code: string]>([
    ["no password", { username: "ada" }, "MISSING_FIELD"],
    ["no username", { password: PASSWORD }, "MISSING_FIELD"],
    ["nothing", {}, "MISSING_FIELD"],
    ["an empty username", { username: "", password: PASSWORD }, "VALIDATION_ERROR"],
    ["a username of 255 characters", { username: "x".repeat(255), password: PASSWORD }, "VALIDATION_ERROR"],
    ["a password of 129 characters", { username: "ada", password: "x".repeat(129) }, "VALIDATION_ERROR"],
    ["an object as code", { username: "ada", password: PASSWORD, code: {} }, "VALIDATION_ERROR"],
    ["a challenge without a code", { challenge: "x" }, "MISSING_FIELD"],
  ])("rejects %s with 400", async (_what, body, code) => {
    const { status, json } = await login(body);
    expect([status, json.error.code]).toEqual([400, code]);
  });

  test("accepts the e-mail as email, as the registration does, and as username", async () => {
    const byEmail = await login({ email: "ada@example.com", password: PASSWORD });
    const byUsername = await login({ username: "ada@example.com", password: PASSWORD });
    expect([byEmail.status, byEmail.json.user]).toEqual([200, byUsername.json.user]);
    const { json } = await login({ email: "ada@example.com" });
    expect(json.error.fields).toEqual({ password: "password is required" });
  });

  test("names every missing field", async () => {
    const { json } = await login({});
    expect(json.error.details).toEqual([
      { field: "username", code: "MISSING_FIELD", message: "username is required" },
      { field: "password", code: "MISSING_FIELD", message: "password is required" },
    ]);
  });
});

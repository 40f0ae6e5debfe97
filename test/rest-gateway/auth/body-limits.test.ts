import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";

const client = useService({ GRAPHQL_MAX_TABLES: "0" });

const OPEN = ["/auth/login", "/auth/refresh", "/api/auth/login", "/auth/register"];
const SIGNED_IN = ["/auth/email", "/auth/password", "/auth/keys", "/api/mfa/backup-codes", "/api/mfa/disable"];

const JSON_TYPE = { "content-type": "application/json" };
const post = async (path: string, headers: Record<string, string>, body?: string | Uint8Array<ArrayBuffer>) => {
  const credential: Record<string, string> = SIGNED_IN.includes(path)
    ? { authorization: `Bearer ${client.token("ada")}` }
    : {};
  const sent = { method: "POST", headers: { ...credential, ...headers }, ...(body !== undefined && { body }) };
  const { status, json } = await client.send(path, sent);
  return [status, json.error.code];
};

describe.each([...OPEN, ...SIGNED_IN])("POST %s", (path) => {
  test("without a body is 400", async () => {
    expect(await post(path, {})).toEqual([400, "INVALID_JSON"]);
    expect(await post(path, JSON_TYPE)).toEqual([400, "INVALID_JSON"]);
  });

  test.each<[string, string | Uint8Array<ArrayBuffer>]>([
    ["half an object", "{"],
    ["bytes that are not valid UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d])],
    ["brackets in 100 levels", "[".repeat(100) + "]".repeat(100)],
  ])("with %s is 400 INVALID_JSON", async (_what, body) =>
    expect(await post(path, JSON_TYPE, body)).toEqual([400, "INVALID_JSON"]),
  );

  test("with JSON that is not an object is 400 VALIDATION_ERROR", async () =>
    expect(await post(path, JSON_TYPE, "5")).toEqual([400, "VALIDATION_ERROR"]));

  test.each(["text/plain", "application/x-www-form-urlencoded", 'application/json; charset="latin1"'])(
    "as %s is 415",
    async (type) => expect(await post(path, { "content-type": type }, "{}")).toEqual([415, "VALIDATION_ERROR"]),
  );

  test("accepts other JSON media types", async () => {
    expect(await post(path, { "content-type": "application/vnd.content.v1+json" }, "{}")).toEqual([
      400,
      "MISSING_FIELD",
    ]);
  });
});

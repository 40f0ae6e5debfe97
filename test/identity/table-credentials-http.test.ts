import http from "node:http";
import jwt from "jsonwebtoken";
import pino from "pino";
import { describe, expect, test } from "vitest";
import { useRest } from "../support/rest-client.ts";
import { JWT_SECRET } from "../support/service.ts";

const DDL = `
  create schema doors;
  create function doors.who() returns json language sql stable
    return json_build_object('role', current_user, 'sub', current_setting('request.jwt.claims')::json -> 'sub', 'login', session_user);
  create table doors.secrets (owner bigint, word text);
  alter table doors.secrets enable row level security;
  create policy "their own" on doors.secrets using (owner = auth.uid());
  insert into doors.secrets values (1, 'of ada'), (2, 'of bob');
  create function doors.break() returns int language plpgsql as $$ begin raise assert_failure; end $$;
  grant usage on schema doors to anon, authenticated, service_role;
  grant all on doors.secrets to anon, authenticated, service_role;
  grant execute on all functions in schema doors to anon, authenticated, service_role;`;

const lines: string[] = [];
const log = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
const guarded = useRest({ DB_SCHEMAS: "doors" }, DDL, log);
const open = useRest({ DB_SCHEMAS: "doors", API_KEY_REQUIRED: "off" }, DDL);

const sign = (claims: object, options: jwt.SignOptions = {}) =>
  jwt.sign(claims, JWT_SECRET, { issuer: "content-service", expiresIn: 3600, ...options });
const USER = { role: "authenticated", type: "access", sub: "1" };
const ANON = sign({ role: "anon" });
const SERVICE = sign({ role: "service_role" });
const ADA = sign(USER);
const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** All tokens that these tests send. */
const TOKENS = {
  anon: ANON,
  service: SERVICE,
  ada: ADA,
  bob: sign({ ...USER, sub: "2" }),
  "another anon": sign({ role: "anon" }, { expiresIn: 7200 }),
  "another service": sign({ role: "service_role" }, { expiresIn: 7200 }),
  expired: sign(USER, { expiresIn: -1 }),
  "an expired key": sign({ role: "anon" }, { expiresIn: -1 }),
  "a refresh token": sign({ type: "refresh", sub: "1" }),
  "a token with another secret": jwt.sign(USER, `${JWT_SECRET}!`, { issuer: "content-service", expiresIn: 3600 }),
  "a tampered token": ADA.replace(
    /\.[^.]+\./,
    `.${encode({ ...USER, role: "admin", iss: "content-service", exp: 4e9 })}.`,
  ),
  "a token without exp": jwt.sign(USER, JWT_SECRET, { issuer: "content-service" }),
  "a token of another issuer": jwt.sign(USER, JWT_SECRET, { issuer: "elsewhere", expiresIn: 3600 }),
  "a token with a malicious role": sign({ ...USER, role: "authenticated; drop table x" }),
  garbage: "garbage",
} as const;
type Token = keyof typeof TOKENS;

type Sent = { readonly apikey?: Token; readonly bearer?: Token; readonly origin?: string };

async function ask({ apikey, bearer, origin }: Sent, path = "rpc/who", service = guarded.service()) {
  const headers = {
    ...(apikey && { apikey: TOKENS[apikey] }),
    ...(bearer && { authorization: `Bearer ${TOKENS[bearer]}` }),
    ...(origin && { origin }),
  };
  const response = await fetch(`${service.url}/rest/v1/${path}`, { headers });
  return { status: response.status, headers: response.headers, json: (await response.json()) as any };
}

const BAD_KEY = { code: "PGRST301", message: "Invalid API key", hint: "Send a valid key in the header apikey." };
const NO_KEY = {
  code: "PGRST302",
  message: "No API key found in request",
  hint: "Send the anon key in the header apikey.",
};
const BAD_TOKEN = { code: "PGRST301", message: "the access token is not valid: sign in again", hint: null };
const EXPIRED = { code: "PGRST303", message: "JWT expired", hint: null };
const DISAGREE = { code: "PGRST301", message: "apikey and Authorization identify different callers", hint: null };

describe("the caller", () => {
  test.each<[Sent, role: string, sub: string | null]>([
    [{ apikey: "anon" }, "anon", null],
    [{ apikey: "anon", bearer: "anon" }, "anon", null],
    [{ apikey: "anon", bearer: "ada" }, "authenticated", "1"],
    [{ apikey: "anon", bearer: "bob", origin: "https://app.example" }, "authenticated", "2"],
    [{ apikey: "service" }, "service_role", null],
    [{ apikey: "service", bearer: "service" }, "service_role", null],
    [{ apikey: "anon", bearer: "service" }, "service_role", null],
    [{ apikey: "anon", bearer: "another anon" }, "anon", null],
    [{ apikey: "service", bearer: "another service" }, "service_role", null],
  ])("of a request with %j is %s", async (sent, role, sub) => {
    const { status, json } = await ask(sent);
    expect([status, json]).toMatchObject([200, { role, sub }]);
  });

  test.each<[Sent, refusal: object]>([
    [{}, NO_KEY],
    [{ bearer: "ada" }, NO_KEY],
    [{ bearer: "service" }, NO_KEY],
    [{ apikey: "ada" }, BAD_KEY],
    [{ apikey: "garbage", bearer: "ada" }, BAD_KEY],
    [{ apikey: "an expired key" }, BAD_KEY],
    [{ apikey: "a token with another secret" }, BAD_KEY],
    [{ apikey: "a refresh token" }, BAD_KEY],
    [{ apikey: "anon", bearer: "expired" }, EXPIRED],
    [{ apikey: "service", bearer: "expired" }, EXPIRED],
    [{ apikey: "anon", bearer: "garbage" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a refresh token" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a token with another secret" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a tampered token" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a token without exp" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a token of another issuer" }, BAD_TOKEN],
    [{ apikey: "anon", bearer: "a token with a malicious role" }, BAD_TOKEN],
    [{ apikey: "service", bearer: "ada" }, DISAGREE],
    [{ apikey: "service", bearer: "anon" }, DISAGREE],
  ])("of a request with %j is refused with 401", async (sent, refusal) => {
    const { status, json, headers } = await ask(sent);
    expect([status, json]).toEqual([401, { details: null, ...refusal }]);
    const challenge = `Bearer error="invalid_token", error_description="${json.message}"`;
    expect(headers.get("www-authenticate")).toBe(refusal === NO_KEY ? "Bearer" : challenge);
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test.each<Sent>([
    { apikey: "service", origin: "https://app.example" },
    { apikey: "anon", bearer: "service", origin: "null" },
    { apikey: "service", bearer: "ada", origin: "null" },
  ])("of a request with %j is refused with 403, because browsers may not use the service key", async (sent) => {
    const { status, json } = await ask(sent);
    expect([status, json.code, json.message]).toEqual([403, "42501", "the service key must not be used in a browser"]);
  });

  test.each(["Basic YWRhOng=", "Bearer", "Token x", "Bearer a b", "Digest x"])(
    "is refused with Authorization: %s",
    async (authorization) => {
      const { status, json } = await guarded.rest("rpc/who", { headers: { authorization } });
      expect([status, json.code]).toEqual([401, "PGRST301"]);
    },
  );

  test("is found whatever the case of the scheme", async () => {
    const headers = { authorization: `bEARER ${ADA}` };
    expect(await guarded.rows("rpc/who", { headers })).toMatchObject({ sub: "1" });
  });

  test.each([
    ["two keys", ["apikey", ANON, "apikey", SERVICE]],
    ["the same key twice", ["apikey", ANON, "apikey", ANON]],
  ])("is refused if a request has %s", async (_what, headers) => {
    expect(await raw(headers)).toEqual([401, "PGRST301"]);
  });

  test("is refused with two Authorization headers", async () => {
    const [status] = await raw(["apikey", ANON, "authorization", `Bearer ${ADA}`, "authorization", `Bearer ${ANON}`]);
    expect(status).toBe(400);
  });

  test("is found by a key in the parameter apikey", async () => {
    expect((await ask({}, `rpc/who?apikey=${ANON}`)).status).toBe(200);
  });
});

describe("on the table interface,", () => {
  test.each<[Sent, words: string[]]>([
    [{ apikey: "anon" }, []],
    [{ apikey: "anon", bearer: "ada" }, ["of ada"]],
    [{ apikey: "anon", bearer: "bob" }, ["of bob"]],
    [{ apikey: "service" }, ["of ada", "of bob"]],
  ])("a request with %j reads the words %j", async (sent, words) => {
    const { json } = await ask(sent, "secrets?select=word&order=word");
    expect(json.map(({ word }: { word: string }) => word)).toEqual(words);
  });

  test("the service key has a login that no other caller uses", async () => {
    const { name } = guarded.service().database;
    expect((await ask({ apikey: "service" })).json.login).toBe(`${name}_service`);
    expect((await ask({ apikey: "anon", bearer: "ada" })).json.login).toBe(`${name}_data`);
  });
});

describe("with API_KEY_REQUIRED=off,", () => {
  test.each<[Sent, role: string]>([
    [{}, "anon"],
    [{ apikey: "anon" }, "anon"],
    [{ bearer: "ada" }, "authenticated"],
    [{ bearer: "service" }, "service_role"],
  ])("the caller of a request with %j is %s", async (sent, role) => {
    expect((await ask(sent, "rpc/who", open.service())).json.role).toBe(role);
  });

  test.each<[Sent, status: number, code: string]>([
    [{ apikey: "garbage" }, 401, "PGRST301"],
    [{ bearer: "expired" }, 401, "PGRST303"],
    [{ bearer: "a tampered token" }, 401, "PGRST301"],
    [{ bearer: "service", origin: "https://app.example" }, 403, "42501"],
  ])("a request with %j is still refused with %i %s", async (sent, status, code) => {
    const answer = await ask(sent, "rpc/who", open.service());
    expect([answer.status, answer.json.code]).toEqual([status, code]);
  });
});

test("a token that expires while it is cached is refused from then on", async () => {
  const token = sign(USER, { expiresIn: 6 });
  const headers = { authorization: `Bearer ${token}` };
  expect(await guarded.rows("rpc/who", { headers })).toMatchObject({ sub: "1" });
  await expect.poll(() => guarded.failure("rpc/who", { headers })).toEqual([401, "PGRST303"]);
});

test("no key or token is in the log, whatever fails", async () => {
  for (const bearer of Object.keys(TOKENS) as Token[]) await ask({ apikey: "anon", bearer }, "rpc/break");
  await ask({ apikey: "service", bearer: "service" }, `rpc/break?apikey=${SERVICE}`);
  await ask({ apikey: "service" }, `nothing?authorization=${ADA}`);
  const written = lines.join("");
  expect(written).toContain("unhandled error");
  const secrets = Object.values(TOKENS).filter((token) => token !== "garbage");
  for (const secret of [...secrets, JWT_SECRET]) expect(written.includes(secret.split(".")[1] ?? secret)).toBe(false);
});

/** Sends these headers unchanged, even duplicates; returns the status and code of the response. */
function raw(headers: readonly string[]): Promise<[number, string]> {
  return new Promise((resolve, reject) => {
    const { url } = guarded.service();
    const host = new URL(url).host;
    const request = http.request(
      `${url}/rest/v1/rpc/who`,
      { headers: ["host", host, ...headers] as never },
      async (response) => {
        const chunks = await response.toArray();
        resolve([response.statusCode!, JSON.parse(Buffer.concat(chunks).toString()).code ?? ""]);
      },
    );
    request.on("error", reject).end();
  });
}

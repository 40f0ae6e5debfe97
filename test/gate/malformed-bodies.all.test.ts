import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { sendPlain } from "../rest-gateway/resources/plain-http.ts";
import { useService } from "../support/http-client.ts";

const MIB = 1_048_576;
const client = useService({ USERS_WRITE: "open", restBodyLimit: MIB });

const TABLE = ["POST /rest/v1/articles", "PATCH /rest/v1/articles?id=eq.1"];
const USERS = ["POST /users", "PUT /users/1", "PATCH /users/1"];
const LOGIN = "POST /auth/login";
const REST = [...USERS, LOGIN];
const WIRES = ["POST /graphql", ...REST, ...TABLE];

/** Routes of authentication that read a body, for callers without credentials and for ada. */
const AUTH = [
  ...["/auth/refresh", "/auth/register", "/api/auth/login", "/auth/email", "/auth/password", "/auth/keys"],
  ...["/api/mfa/verify", "/api/mfa/backup-codes", "/api/mfa/disable"],
].map((path) => `POST ${path}`);

type Body = string | Uint8Array;
type Headers = Readonly<Record<string, string>>;
const JSON_TYPE = { "content-type": "application/json" };

/** The status, the code and all that is said about it: `["400 INVALID_JSON", "…"]` */
async function refused(request: string, body: Body | null, headers: Headers = JSON_TYPE) {
  const [method, path = ""] = request.split(" ");
  const authorization = `Bearer ${client.token("ada")}`;
  const { status, text } = await sendPlain(client.service().url, {
    ...{ method, path, body },
    headers: { authorization, apikey: client.service().service.tokens.issueKey("anon"), ...headers },
  });
  const { errors, error, code } = text === "" ? {} : JSON.parse(text);
  return [`${status} ${errors?.[0].extensions.code ?? error?.code ?? code}`, text] as const;
}

/** The codes with which the wires refuse, in the order of WIRES. */
const codes = (status: number, ofRest: string) =>
  WIRES.map((wire) => {
    const code = REST.includes(wire) ? ofRest : TABLE.includes(wire) ? "PGRST102" : "VALIDATION_ERROR";
    return `${wire}: ${status} ${code}`;
  });

/** Sends the same to each wire. Every answer says `why`. */
async function fromAll(body: Body, why: string, headers?: Headers) {
  const found: string[] = [];
  for (const wire of WIRES) {
    const [outcome, text] = await refused(wire, body, headers);
    expect([wire, text]).toEqual([wire, expect.stringContaining(why)]);
    found.push(`${wire}: ${outcome}`);
  }
  return found;
}

const written = async () => [
  await client.content(),
  await client.sql(`
    select (select json_agg(a order by user_id) from auth_private.accounts as a) as accounts,
      (select count(*) from auth_private.api_keys) as keys, (select count(*) from auth_private.factors) as factors`),
];
let before: unknown;
beforeAll(async () => {
  // The first request of a caller reads their account.
  for (const wire of WIRES) await refused(wire, READ);
  before = await written();
});
afterEach(async () => expect(await written()).toEqual(before));

/** JSON that every wire reads, and then refuses for its field. */
const READ = '{"email":7}';
const nested = (levels: number) => `{"email":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
const around = (...bytes: number[]) => Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')]);

describe("a body that is not JSON is refused on every wire, without the database:", () => {
  const JSON_FAULT = "is not valid JSON";
  const UTF_8_FAULT = "is not valid UTF-8";
  test.each<[what: string, body: Body, why?: string]>([
    ["nothing", ""],
    ["blanks", " \r\n\t"],
    ["half an object", '{"name":'],
    ["a trailing comma", '{"name":"Grace",}'],
    ["text after it", '{"name":"Grace"} x'],
    ["single quotes", "{'name':'Grace'}"],
    ["a comment", '{"name":"Grace"/**/}'],
    ["NaN", '{"age":NaN}'],
    ["a line break in a text", '{"name":"Gra\nce"}'],
    ["an unknown escape", '{"name":"\\x"}'],
    ["a form", "name=Grace&email=grace%40test.example"],
    ["XML", "<user><name>Grace</name></user>"],
    ["a byte order mark", "\ufeff{}"],
    ["a byte of no character", around(0xff), UTF_8_FAULT],
    ["an overlong slash", around(0xc0, 0xaf), UTF_8_FAULT],
    ["half of a surrogate pair", around(0xed, 0xa0, 0x80), UTF_8_FAULT],
    ["Latin-1", Buffer.from('{"name":"Gr\xe4ce"}', "latin1"), UTF_8_FAULT],
    ["UTF-16", Buffer.from('{"name":"Grace"}', "utf16le")],
    ["brackets in 65 levels", nested(65), "nested more than 64 levels deep"],
    ["500,000 opening brackets", "[".repeat(500_000), "nested more than 64 levels deep"],
    ["objects in 65 levels", `${'{"a":'.repeat(65)}1${"}".repeat(65)}`, "nested more than 64 levels deep"],
  ])("%s", async (_what, body, why = JSON_FAULT) => {
    const waits = client.service().service.databaseWaits();
    expect(await fromAll(body, why)).toEqual(codes(400, "INVALID_JSON"));
    expect(client.service().service.databaseWaits()).toBe(waits);
  });
});

test.each(["null", "true", "7", '"Grace"', "-0", "1e999", "[1]", "[[]]", "[null]"])(
  "a body that is not an object is refused on every wire: %s",
  async (body) => expect(await fromAll(body, "")).toEqual(codes(400, "VALIDATION_ERROR")),
);

test.each(["[]", "[{}]"])("%s, which creates users, is no object for the other requests", async (body) => {
  for (const wire of ["POST /graphql", "PUT /users/1", "PATCH /users/1", LOGIN])
    expect([wire, (await refused(wire, body))[0]]).toEqual([wire, "400 VALIDATION_ERROR"]);
});

test.each<[type: string | undefined, readers: readonly string[]]>([
  ["application/json", WIRES],
  ["application/json;charset=utf-8", WIRES],
  ['Application/JSON; Charset="UTF-8"', WIRES],
  ["application/json; $$ x=y $$", [...REST, ...TABLE]],
  [undefined, TABLE],
  ["application/vnd.content.v1+json", REST],
  ["application/vnd.content.v2+json", REST],
  ["application/merge-patch+json", ["PATCH /users/1"]],
  ["application/vnd.pgrst.object+json", TABLE],
  ["application/vnd.pgrst.array+json", TABLE],
  ["text/csv", TABLE],
  ["application/x-www-form-urlencoded", TABLE],
  ...["text/plain", "text/json", "multipart/form-data; boundary=x", "application/xml", "application/jsonx"].map(none),
  ...["application/json-patch+json", "application/problem+json", "application/vnd.api+json", "image/png"].map(none),
  ...["application/vnd.content.v3+json", "application/json; charset=latin1", "application/graphql"].map(none),
  ...["application/json; charset=utf-16", "application/json, text/plain", "application/octet-stream"].map(none),
  ...["json", "application/", ""].map(none),
])("Content-Type: %s is read by %j, and is 415 for the others", async (type, readers) => {
  const headers: Headers = type === undefined ? {} : { "content-type": type };
  const unread = codes(415, "VALIDATION_ERROR").filter((_, i) => !readers.includes(WIRES[i]!));
  const found: string[] = [];
  for (const wire of WIRES) {
    const [outcome, text] = await refused(wire, READ, headers);
    if (!outcome.startsWith("415")) continue;
    found.push(`${wire}: ${outcome}`);
    expect(text).toMatch(/Content-Type: application\/json"|Content-Type not acceptable: /);
  }
  expect(found).toEqual(unread);
});

function none(type: string): [string, readonly string[]] {
  return [type, []];
}

test("an empty body without a Content-Type is not JSON", async () => {
  for (const wire of REST) expect([wire, (await refused(wire, null, {}))[0]]).toEqual([wire, "400 INVALID_JSON"]);
  for (const wire of TABLE) expect([wire, (await refused(wire, null, {}))[0]]).toEqual([wire, "400 PGRST102"]);
});

test.each(["gzip", "br", "deflate", "identity", "x"])("Content-Encoding: %s is 415 on every wire", async (encoding) => {
  const headers = { ...JSON_TYPE, "content-encoding": encoding };
  const why = "the body must be sent without Content-Encoding";
  expect(await fromAll(READ, why, headers)).toEqual(codes(415, "VALIDATION_ERROR"));
});

describe.each<[how: string, headers: Headers]>([
  ["with Content-Length", JSON_TYPE],
  ["in chunks", { ...JSON_TYPE, "transfer-encoding": "chunked" }],
])("a body %s", (_how, headers) => {
  test("of more than 1 MiB is 413 on every wire", async () => {
    const why = "the body must not be larger than 1048576 bytes";
    expect(await fromAll(READ.padEnd(MIB + 1), why, headers)).toEqual(codes(413, "VALIDATION_ERROR"));
  });

  test("of 1 MiB is read on every wire, and so are 64 levels of brackets, and any number in a text", async () => {
    for (const body of [READ.padEnd(MIB), nested(64), JSON.stringify({ email: 7, name: '[{"\\'.repeat(1000) })])
      for (const wire of WIRES) {
        const [outcome, text] = await refused(wire, body, headers);
        expect([wire, outcome]).toEqual([wire, expect.not.stringMatching(/413|INVALID_JSON|PGRST102/)]);
        expect(text).not.toContain("levels deep");
      }
  });
});

test.each(AUTH)("%s refuses the bodies that a login refuses", async (request) => {
  const form = { "content-type": "application/x-www-form-urlencoded" };
  const sent: [Body, Headers][] = [
    ...["", "{", "5", "null", "[]", around(0xff), nested(65), READ.padEnd(MIB + 1)].map((body): [Body, Headers] => [
      body,
      JSON_TYPE,
    ]),
    ...[form, { "content-type": "text/plain" }, { ...JSON_TYPE, "content-encoding": "gzip" }].map(
      (headers): [Body, Headers] => [READ, headers],
    ),
  ];
  const outcomes = async (of: string) => {
    const found: unknown[] = [];
    for (const [body, headers] of sent) found.push((await refused(of, body, headers))[0]);
    return found;
  };
  expect(await outcomes(request)).toEqual(await outcomes(LOGIN));
});

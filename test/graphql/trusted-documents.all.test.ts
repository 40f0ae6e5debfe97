import { createHash } from "node:crypto";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "graphql-ws";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { outcomeOf } from "../../cli/command.ts";
import { documents } from "../../cli/documents.ts";
import { readConfig } from "../support/config.ts";
import { useService } from "../support/http-client.ts";
import { JWT_SECRET } from "../support/service.ts";

const folder = mkdtempSync(join(tmpdir(), "content-documents-"));
function file(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

const NAMES = "query Names { users(limit: 1) { name } }";
const TITLE = "query Title($id: ID!) { article(id: $id) { title } }";
const CREATED = "subscription Created { onArticleCreated { title } }";
const COUNT = "{ articles { totalCount } }";
const MANIFESTS = [
  // graphql-codegen, client preset
  file("codegen.json", { [`sha256:${sha256(NAMES)}`]: NAMES }),
  // Relay
  file("relay.json", { "5c6a1ac5d4c8f4d1cb5a2d1ad2a1cb2b": TITLE }),
  // Apollo
  file("apollo.json", {
    format: "apollo-persisted-query-manifest",
    version: 1,
    operations: [{ id: "created-1", name: "Created", type: "subscription", body: CREATED }],
  }),
].join(",");

const off = useService();
const allow = useService({ GRAPHQL_DOCUMENTS: `allow ${MANIFESTS}` });
const only = useService({ GRAPHQL_DOCUMENTS: `only ${MANIFESTS}` });

const apq = (hash: string, query?: string) => ({
  ...(query && { query }),
  extensions: { persistedQuery: { version: 1, sha256Hash: hash } },
});
const error = (message: string, code: string) => ({ errors: [{ message, extensions: { code } }] });
const NOT_FOUND = error("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND");
const UNTRUSTED = error("only trusted documents are executed: send a documentId", "PERMISSION_DENIED");
const names = { data: { users: [{ name: "Ada Lovelace" }] } };

/** Returns a function that sends an operation and resolves to its result or errors. */
function overSocket(client: typeof off) {
  const url = `${client.service().url.replace("http", "ws")}/graphql`;
  const socket = createClient({ url, webSocketImpl: WebSocket, retryAttempts: 0, lazyCloseTimeout: 60_000 });
  onTestFinished(() => void socket.dispose());
  return (payload: object) =>
    new Promise((resolve) => {
      socket.subscribe(payload as never, { next: resolve, error: resolve, complete: () => {} });
    });
}

describe.each([
  ["allow", allow],
  ["only", only],
])("mode %s", (_mode, client) => {
  test("executes the documents of all manifests by documentId, with variables", async () => {
    for (const documentId of [sha256(NAMES), `sha256:${sha256(NAMES)}`]) {
      expect((await client.post({ documentId })).json).toEqual(names);
    }
    const variables = { id: "1" };
    const { json } = await client.post({ documentId: "5c6a1ac5d4c8f4d1cb5a2d1ad2a1cb2b", variables });
    expect(json).toEqual({ data: { article: { title: "Notes on the Analytical Engine" } } });
  });

  test("executes them by GET, and by the hash of automatic persisted queries", async () => {
    expect((await client.send(`/graphql?documentId=${sha256(NAMES)}`)).json).toEqual(names);
    const extensions = encodeURIComponent(JSON.stringify(apq(sha256(NAMES)).extensions));
    expect((await client.send(`/graphql?extensions=${extensions}`)).json).toEqual(names);
    expect((await client.post(apq(sha256(NAMES)))).json).toEqual(names);
    expect((await client.post(apq(sha256(NAMES), NAMES))).json).toEqual(names);
  });

  test("executes them over WebSocket", async () => {
    const run = overSocket(client);
    // graphql-ws itself needs a query.
    expect(await run({ query: "", documentId: sha256(NAMES) })).toEqual(names);
    expect(await run({ query: "", ...apq(sha256(NAMES)) })).toEqual(names);
    expect(await run({ query: "", documentId: "unknown" })).toEqual(NOT_FOUND.errors);

    const socket = new WebSocket(`${client.service().url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    onTestFinished(() => socket.close());
    const received = new Promise((resolve) => {
      socket.on("message", (data) => {
        const message = JSON.parse(String(data));
        const payload = { documentId: sha256(NAMES) };
        if (message.type === "connection_ack") socket.send(JSON.stringify({ id: "1", type: "subscribe", payload }));
        if (message.type === "next") resolve(message.payload);
      });
    });
    await new Promise((resolve) => socket.on("open", resolve));
    socket.send(JSON.stringify({ type: "connection_init" }));
    expect(await received).toEqual(names);
  });

  test("does not know other ids", async () => {
    expect((await client.post({ documentId: "unknown" })).json).toEqual(NOT_FOUND);
    expect((await client.post(apq(sha256("{ me { id } }")))).json).toEqual(NOT_FOUND);
    expect((await client.post({ documentId: 12 })).status).toBe(400);
    expect((await client.post({ extensions: { persistedQuery: { sha256Hash: 12 } } })).status).toBe(400);
  });
});

describe("mode allow", () => {
  test("registers a document by its hash, for requests without its text", async () => {
    const count = { data: { articles: { totalCount: 4 } } };
    expect((await allow.post(apq(sha256(COUNT)))).json).toEqual(NOT_FOUND);
    expect((await allow.post(apq(sha256(COUNT), COUNT))).json).toEqual(count);
    expect((await allow.post(apq(sha256(COUNT)))).json).toEqual(count);
    expect((await allow.post({ query: COUNT })).json).toEqual(count);
  });

  test("refuses a hash that is not that of the text", async () => {
    expect((await allow.post(apq(sha256("other"), COUNT))).json).toEqual(
      error("the hash is not the SHA-256 of the query", "VALIDATION_ERROR"),
    );
  });
});

describe("mode only", () => {
  test("refuses every other document without parsing it, over HTTP and WebSocket", async () => {
    for (const query of [COUNT, "{ __schema { types { name } } }", "{{{ not GraphQL", `${NAMES} `]) {
      expect((await only.post({ query })).json).toEqual(UNTRUSTED);
      expect((await only.post(apq(sha256(query), query))).json).toEqual(UNTRUSTED);
    }
    expect((await only.send(`/graphql?query=${encodeURIComponent(COUNT)}`)).json).toEqual(UNTRUSTED);
    expect(await overSocket(only)({ query: COUNT })).toEqual(UNTRUSTED.errors);
  });

  test("accepts the text of a trusted document", async () => {
    expect((await only.post({ query: NAMES })).json).toEqual(names);
  });
});

describe("mode off", () => {
  test("executes only texts", async () => {
    const refused = error("PersistedQueryNotSupported", "PERSISTED_QUERY_NOT_SUPPORTED");
    expect((await off.post({ documentId: sha256(NAMES) })).json).toEqual(refused);
    expect((await off.post(apq(sha256(NAMES)))).json).toEqual(refused);
    expect((await off.post(apq(sha256(NAMES), NAMES))).json).toEqual(names);
  });
});

test.each([
  ["missing.json", null, "cannot be read"],
  ["no-json.json", "{", "not JSON"],
  [
    "no-manifest.json",
    { format: "apollo-persisted-query-manifest", operations: 1 },
    "not a manifest of graphql-codegen, Relay or Apollo",
  ],
])("the service does not start with the manifest %s", (name, content, reason) => {
  const path = content === null ? join(folder, name) : file(name, content);
  const settings = { DATABASE_URL: "postgres://localhost/x", JWT_SECRET, GRAPHQL_DOCUMENTS: `only ${path}` };
  expect(() => readConfig(settings)).toThrow(`GRAPHQL_DOCUMENTS must name manifests of documents: ${path}: ${reason}`);
});

test.each(["only", "any app.json", "none app.json", "app.json", "allowed"])(
  "GRAPHQL_DOCUMENTS=%s is refused at start",
  (text) => {
    const message = "GRAPHQL_DOCUMENTS must be any, none, allow, or allow or only and files: only app.json, admin.json";
    expect(() => readConfig({ GRAPHQL_DOCUMENTS: text })).toThrow(message);
  },
);

describe("npx content-service documents check", () => {
  const check = (...files: string[]) =>
    outcomeOf(documents(["check", ...files], { DATABASE_URL: off.service().database.url, JWT_SECRET }));

  test("accepts documents that fit the schema", async () => {
    expect(await check(...MANIFESTS.split(","))).toEqual({
      exitCode: 0,
      stdout: "3 documents are valid\n",
      stderr: "",
    });
  });

  test("names each document that a change of the schema breaks", async () => {
    await off.sql(
      "create table public.gadgets (id bigint primary key, label text); grant select on public.gadgets to anon",
    );
    const manifest = file("gadgets.json", {
      "gadgets-1": "{ gadgets { edges { node { label } } } }",
      "bad-syntax": "{ gadgets {",
      "names-1": NAMES,
    });
    expect((await check(manifest)).stderr).toBe("bad-syntax: Syntax Error: Expected Name, found <EOF>. (line 1)\n");
    await off.sql("alter table public.gadgets rename column label to title");
    const broken = await check(manifest);
    expect(broken.exitCode).toBe(1);
    expect(broken.stderr).toContain('gadgets-1: Cannot query field "label" on type "Gadget". (line 1)\n');
    expect(broken.stderr).not.toContain("names-1");
    await off.sql("drop table public.gadgets");
  });

  test("needs documents and a known command", async () => {
    const run = (...args: string[]) =>
      outcomeOf(documents(args, { DATABASE_URL: "postgres://localhost/x", JWT_SECRET }));
    expect(await run("check")).toMatchObject({
      exitCode: 2,
      stderr: "no documents: name a file, or set GRAPHQL_DOCUMENTS\n",
    });
    expect(await run("chekc")).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("the command must be check"),
    });
    expect(await run("--help")).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining("npx content-service documents check"),
    });
  });
});

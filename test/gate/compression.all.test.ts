import { execFile } from "node:child_process";
import { once } from "node:events";
import { type IncomingHttpHeaders, type IncomingMessage, request } from "node:http";
import { promisify } from "node:util";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { createClient } from "@supabase/supabase-js";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { acceptedCoding, MIN_BYTES } from "../../gate/pipeline/compression.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { hasHaproxy, startHaproxyOfInstances } from "../support/haproxy.ts";
import { useOwnService } from "../support/http-client.ts";
import { samples } from "../support/samples.ts";

const DDL = `
  create table public.entries (id int primary key, text text not null);
  insert into public.entries select n, md5(n::text) from generate_series(1, 200) as n;
  alter table public.entries enable row level security;
  create policy "all" on public.entries using (true);
  grant select on public.entries to anon, authenticated;
  create function public.letters(n int) returns text language sql stable as
    $$ select left(string_agg(md5(i::text), ''), n) from generate_series(0, n / 32) as i $$;
  create domain public."image/png" as bytea;
  create function public.image() returns public."image/png" language sql stable as
    $$ select decode(repeat('00', 5000), 'hex') $$;
  create function public.described(header text, value text) returns text language plpgsql stable as $$ begin
    perform set_config('response.headers', json_build_array(json_build_object(header, value))::text, true);
    return repeat('x', 5000);
  end $$;
  grant execute on function public.letters, public.image, public.described to anon;`;

const { service } = useOwnService({ settings: { API_KEY_REQUIRED: "off" }, ddl: DDL });

type Raw = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly bytes: Buffer };
type RawSent = { readonly method?: string; readonly body?: string };

/** A response as it is on the wire. */
async function get(path: string, headers: Record<string, string> = {}, { method, body }: RawSent = {}): Promise<Raw> {
  const type = body === undefined ? {} : { "content-type": "application/json" };
  const sent = request(service().url + path, { method: method ?? "GET", headers: { ...type, ...headers } });
  sent.end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const chunks: Buffer[] = await response.toArray();
  return { status: response.statusCode!, headers: response.headers, bytes: Buffer.concat(chunks) };
}

const GZIP = { "accept-encoding": "gzip" };
const DECODERS = { gzip: gunzipSync, br: brotliDecompressSync } as const;
const decoded = ({ headers, bytes }: Raw): Buffer => {
  const coding = headers["content-encoding"];
  return coding === undefined ? bytes : DECODERS[coding as keyof typeof DECODERS](bytes);
};
const ENTRIES = "/rest/v1/entries?order=id";

describe("Accept-Encoding", () => {
  test.each([
    ["gzip, deflate", "gzip", false],
    ["gzip, deflate, br, zstd", "br", false],
    ["GZip;Q=0.8", "gzip", false],
    ["br;q=0.5, gzip", "gzip", false],
    ["br;q=0, gzip;q=0.1", "gzip", false],
    ["x-gzip", "gzip", false],
    ["*", "gzip", false],
    ["*;q=0.1, gzip;q=0", null, false],
    ["deflate, zstd", null, false],
    ["identity", null, false],
    ["gzip, identity", "gzip", false],
    ["gzip;q=0.5, identity", null, false],
    ["gzip, identity;q=0", "gzip", true],
    ["gzip;q=0.2, *;q=0", "gzip", true],
    ["gzip;q=0", null, false],
    ["gzip;q=x", null, false],
    ["", null, false],
  ])("%o chooses %s", (header, coding, isRequired) => expect(acceptedCoding(header)).toEqual({ coding, isRequired }));

  test.each([
    ["gzip", "gzip"],
    ["br, gzip", "br"],
  ])("%s is what a table is sent in, with its length", async (accepted, coding) => {
    const plain = await get(ENTRIES);
    const coded = await get(ENTRIES, { "accept-encoding": accepted });
    expect(coded.headers).toMatchObject({ "content-encoding": coding, "content-length": `${coded.bytes.length}` });
    expect(decoded(coded)).toEqual(plain.bytes);
    expect(coded.bytes.length).toBeLessThan(plain.bytes.length);
    for (const { headers } of [plain, coded]) expect(headers.vary).toMatch(/\bAccept-Encoding\b/);
    expect(plain.headers["content-encoding"]).toBeUndefined();
  });

  test.each(["gzip", "br", "gzip, identity;q=0"])("%s: a body of any size is the same as without", async (accepted) => {
    const around = fc.integer({ min: MIN_BYTES - 20, max: MIN_BYTES + 20 });
    const sizes = fc.oneof(around, fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 60_000, max: 400_000 }));
    await fc.assert(
      fc.asyncProperty(sizes, async (size) => {
        const path = `/rest/v1/rpc/letters?n=${size}`;
        const [plain, coded] = await Promise.all([get(path), get(path, { "accept-encoding": accepted })]);
        expect(decoded(coded)).toEqual(plain.bytes);
        const isCoded = accepted.includes("q=0") || plain.bytes.length >= MIN_BYTES;
        expect(coded.headers["content-encoding"] !== undefined).toBe(isCoded);
      }),
      { numRuns: samples(100) },
    );
  });

  test("is followed for GraphQL, for what is created, and for documents", async () => {
    const all = "{ __schema { types { name description } } }";
    const found = await get("/graphql", GZIP, { method: "POST", body: JSON.stringify({ query: all }) });
    expect(found.headers).toMatchObject({ "content-encoding": "gzip", "content-length": `${found.bytes.length}` });
    expect(found.headers.vary).toMatch(/\bAccept-Encoding\b/);
    expect(JSON.parse(decoded(found).toString()).data.__schema.types.length).toBeGreaterThan(10);
    const short = await get("/graphql", GZIP, { method: "POST", body: '{"query":"{ __typename }"}' });
    expect([short.headers["content-encoding"], short.bytes.toString()]).toEqual([
      undefined,
      '{"data":{"__typename":"Query"}}',
    ]);

    for (const path of [
      "/rest/v1/openapi.json",
      "/rest/v1/types.ts",
      "/openapi.json",
      "/docs/errors",
      "/assets/style.css",
    ]) {
      const [plain, coded] = await Promise.all([get(path), get(path, GZIP)]);
      expect([path, coded.headers["content-encoding"]]).toEqual([path, "gzip"]);
      expect(decoded(coded)).toEqual(plain.bytes);
      for (const { headers } of [plain, coded]) expect(headers.vary).toMatch(/\bAccept-Encoding\b/);
    }
  });

  test("is sent by supabase-js, which reads the response as usual", async () => {
    const codings: (string | null)[] = [];
    const seen: typeof fetch = async (...sent) => {
      const response = await fetch(...sent);
      codings.push(response.headers.get("content-encoding"));
      return response;
    };
    const { url, service: own } = service();
    const client = createClient(url, own.tokens.issueKey("anon"), { global: { fetch: seen } });
    const { data } = await client.from("entries").select().order("id");
    expect([data!.length, codings]).toEqual([200, ["gzip"]]);
    expect(data![199]).toEqual({ id: 200, text: "3644a684f98ea8fe223c713b77189a77" });
  });
});

describe("a response is sent as it is", () => {
  const FOREIGN = { ...GZIP, "sec-fetch-site": "cross-site" };
  test.each([
    ["if it is a part of the rows", ENTRIES, { ...GZIP, range: "0-99", prefer: "count=exact" }],
    ["if it is an error", `/rest/v1/entries?select=${"x".repeat(2000)}`, GZIP],
    ["if its format is compressed itself", "/rest/v1/rpc/image", { ...GZIP, accept: "image/png" }],
    ["if its function sets ETag", '/rest/v1/rpc/described?header=ETag&value="a"', GZIP],
    ["if its function sets Vary", "/rest/v1/rpc/described?header=vary&value=Accept", GZIP],
    ["if its function sets a coding", "/rest/v1/rpc/described?header=Content-Encoding&value=identity", GZIP],
    [
      "if its function sets no-transform",
      "/rest/v1/rpc/described?header=Cache-Control&value=public, no-transform",
      GZIP,
    ],
    ["to a foreign page that sends cookies", ENTRIES, { ...FOREIGN, cookie: "a=b" }],
    [
      "to a page of another host of the site that sends cookies",
      ENTRIES,
      { ...FOREIGN, "sec-fetch-site": "same-site", cookie: "a=b" },
    ],
    ["to the preference for identity", ENTRIES, { "accept-encoding": "gzip;q=0.5, identity;q=0.8" }],
  ])("%s", async (_, path, headers) => {
    const { bytes, headers: sent } = await get(
      path.replace(/[" ]/g, (each) => encodeURIComponent(each)),
      headers,
    );
    expect([sent["content-encoding"] ?? "identity", bytes.length > 500]).toEqual(["identity", true]);
    expect(sent["content-length"]).toBe(String(bytes.length));
  });

  test("if its function sets another header, it is compressed", async () => {
    const { headers } = await get("/rest/v1/rpc/described?header=X-Own&value=yes", GZIP);
    expect([headers["content-encoding"], headers["x-own"]]).toEqual(["gzip", "yes"]);
  });

  test("to a foreign page that sends no cookies, it is compressed", async () =>
    expect((await get(ENTRIES, FOREIGN)).headers["content-encoding"]).toBe("gzip"));

  test("if it has a secret of an account", async () => {
    const body = JSON.stringify({ username: "x".repeat(3000), password: "y" });
    for (const path of ["/auth/login", "/auth/v1/token?grant_type=password"]) {
      const { headers } = await get(path, GZIP, { method: "POST", body });
      expect(headers["content-encoding"]).toBeUndefined();
    }
    expect((await get("/sign-in", { ...GZIP, accept: "text/html" })).headers["content-encoding"]).toBeUndefined();
  });

  test("if it is a stream of events", async () => {
    const events = new EventStreamClient(`${service().url}${ENTRIES}`, { headers: GZIP });
    const [snapshot] = await events.take(1);
    expect(snapshot!.data).toHaveLength(200);
    expect(events.headers["content-encoding"]).toBeUndefined();
  });
});

describe("the entity tag", () => {
  const withoutCoding = (tag = "") => tag.replace(/-(gzip|br)"$/, '"');

  test.each([ENTRIES, "/openapi.json", "/docs/errors"])(
    "of %s names the coding, and each form of it gives 304",
    async (path) => {
      const tags = await Promise.all(
        ["identity", "gzip", "br"].map(
          async (coding) => (await get(path, { "accept-encoding": coding })).headers.etag!,
        ),
      );
      const [plain] = tags;
      expect(tags).toEqual([plain, plain!.replace(/"$/, '-gzip"'), plain!.replace(/"$/, '-br"')]);
      for (const tag of tags)
        for (const accepted of ["identity", "gzip"]) {
          const { status, bytes, headers } = await get(path, {
            "accept-encoding": accepted,
            "if-none-match": `"other", W/${tag}`,
          });
          // The tag of the copy that the client has.
          expect([status, bytes.length, headers.etag, headers["content-encoding"]]).toEqual([304, 0, tag, undefined]);
          expect(headers.vary).toMatch(/\bAccept-Encoding\b/);
        }
      expect((await get(path, { ...GZIP, "if-none-match": plain!.replace(/"$/, '-zip"') })).status).toBe(200);
    },
  );

  test("of a record that was sent compressed is accepted as If-Match, and refused when the record has changed", async () => {
    const headers = { ...GZIP, authorization: `Bearer ${service().token("ada")}` };
    const content = "A long text. ".repeat(200);
    const created = await get("/articles", headers, {
      method: "POST",
      body: JSON.stringify({ title: "Long text", content }),
    });
    const path = created.headers.location!;
    const read = await get(path, headers);
    expect([created.headers["content-encoding"], read.headers["content-encoding"]]).toEqual(["gzip", "gzip"]);
    expect(read.headers.etag).toMatch(/^"v1-\d+-gzip"$/);
    expect(JSON.parse(decoded(read).toString())).toMatchObject({ title: "Long text", content });
    const change = (tag: string, title: string) =>
      get(path, { ...headers, "if-match": tag }, { method: "PATCH", body: JSON.stringify({ title }) });

    const first = await change(read.headers.etag!, "Changed");
    expect([first.status, JSON.parse(decoded(first).toString()).title]).toEqual([200, "Changed"]);
    expect((await change(read.headers.etag!, "Lost change")).status).toBe(412);
    expect((await change(withoutCoding(first.headers.etag), "Changed again")).status).toBe(200);
    expect((await change(withoutCoding(first.headers.etag), "Lost change")).status).toBe(412);
    const now = await get(path, headers);
    expect((await change(`W/${now.headers.etag}`, "Lost change")).status).toBe(412);
    expect(JSON.parse(decoded(await get(path, headers)).toString()).title).toBe("Changed again");
  });

  test.runIf(hasHaproxy)("holds for curl behind HAProxy", async () => {
    const haproxy = await startHaproxyOfInstances([Number(new URL(service().url).port)]);
    onTestFinished(() => haproxy.stop());
    const { port } = haproxy;
    const sent = [
      "--header",
      `authorization: Bearer ${service().token("ada")}`,
      "--header",
      "content-type: application/json",
    ];
    /** The status, the tag, the coding and the body as the client has it. */
    const curl = async (path: string, ...more: string[]) => {
      const format = "\n%{http_code} %header{etag} %header{content-encoding}";
      const command = [
        "--silent",
        "--compressed",
        "--write-out",
        format,
        ...sent,
        ...more,
        `http://127.0.0.1:${port}${path}`,
      ];
      const { stdout } = await promisify(execFile)("curl", command);
      const end = stdout.lastIndexOf("\n");
      const [status, tag, coding] = stdout.slice(end + 1).split(" ");
      return { status: Number(status), tag: tag!, coding, body: stdout.slice(0, end) };
    };
    const article = JSON.stringify({ title: "Behind a proxy", content: "A long text. ".repeat(200) });
    const { id } = JSON.parse((await curl("/articles", "--data", article)).body);
    const path = `/articles/${id}`;
    const read = await curl(path);
    expect([read.status, JSON.parse(read.body).title]).toEqual([200, "Behind a proxy"]);
    expect(read.tag).toMatch(new RegExp(`^"v1-\\d+-${read.coding}"$`));
    const again = await curl(path, "--header", `if-none-match: ${read.tag}`);
    expect(again).toEqual({ status: 304, tag: read.tag, coding: "", body: "" });
    const change = () =>
      curl(path, "--request", "PATCH", "--header", `if-match: ${read.tag}`, "--data", '{"title":"Changed once"}');
    expect((await change()).status).toBe(200);
    expect((await change()).status).toBe(412);
    expect((await curl(path, "--header", `if-none-match: ${read.tag}`)).status).toBe(200);
  });

  test("of HEAD is that of GET", async () => {
    for (const path of ["/openapi.json", "/docs/errors"]) {
      const [found, asked] = await Promise.all([get(path, GZIP), get(path, GZIP, { method: "HEAD" })]);
      const { etag, vary, "content-encoding": coding } = found.headers;
      expect(asked.headers).toMatchObject({ etag, vary, "content-encoding": coding });
      expect([undefined, found.headers["content-length"]]).toContain(asked.headers["content-length"]);
    }
  });
});

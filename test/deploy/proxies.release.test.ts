import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { type ClientHttp2Session, connect } from "node:http2";
import { type RequestOptions, request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { createClient } from "graphql-ws";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type ClientOptions, WebSocket } from "ws";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";
import { PUBLIC_HOST, startWebProxy, webProxies } from "../support/web-proxy.ts";

const TLS = { servername: PUBLIC_HOST, rejectUnauthorized: false };
const JSON_BODY = { "content-type": "application/json" };
const URL_OF_CLIENTS = `https://${PUBLIC_HOST}`;

/** A WebSocket of a page at the public URL. */
class PageSocket extends WebSocket {
  constructor(url: string, protocols: string) {
    const options: ClientOptions = { ...TLS, headers: { host: PUBLIC_HOST, origin: URL_OF_CLIENTS } };
    super(url, protocols, options);
  }
}

describe.each(webProxies)("behind %s, with its configuration of deploy/proxy/", (name) => {
  let service: TestService;
  let proxy: Awaited<ReturnType<typeof startWebProxy>>;
  beforeAll(async () => {
    const port = await findFreePort();
    service = await startTestService({ PORT: String(port), TRUST_PROXY: "127.0.0.1", BASE_URL: URL_OF_CLIENTS });
    proxy = await startWebProxy(name, port);
  });
  afterAll(async () => {
    await proxy?.stop();
    await service?.stop();
  });

  const anon = () => ({ apikey: service.service.tokens.issueKey("anon") });
  const ada = () => ({ ...anon(), authorization: `Bearer ${service.token("ada")}` });

  async function send(path: string, options: RequestOptions = {}, body?: string) {
    const headers = { host: PUBLIC_HOST, ...anon(), ...options.headers };
    const sent = request({ ...TLS, host: "127.0.0.1", port: proxy.port, path, ...options, headers });
    // After the response, a proxy may close the connection while the rest of a body is sent.
    sent.on("error", () => {});
    sent.end(body);
    const [response] = await once(sent, "response");
    return { status: response.statusCode as number, headers: response.headers, text: await text(response) };
  }

  const post = (path: string, headers: RequestOptions["headers"], value: unknown, localAddress = "127.0.0.1") =>
    send(path, { method: "POST", localAddress, headers: { ...JSON_BODY, ...headers } }, JSON.stringify(value));

  /** A session of HTTP/2, which browsers use. */
  function openHttp2(): ClientHttp2Session {
    const session = connect(`https://127.0.0.1:${proxy.port}`, TLS);
    onTestFinished(() => session.destroy());
    return session;
  }

  const ask = (session: ClientHttp2Session, path: string, headers: Readonly<Record<string, string>>) =>
    session.request({ ":path": path, ":authority": PUBLIC_HOST, ...headers }).end();

  test("a response is that of the service, with its strong entity tag, over HTTP/1.1 and HTTP/2", async () => {
    const one = await send("/rest/v1/articles?limit=1&title=neq.a%2Fb%20c");
    expect(one).toMatchObject({ status: 200, headers: { etag: expect.stringMatching(/^"/) } });
    const stream = ask(openHttp2(), "/rest/v1/articles?limit=1&title=neq.a%2Fb%20c", anon());
    const [headers] = await once(stream, "response");
    expect([headers[":status"], headers.etag, await text(stream)]).toEqual([200, one.headers.etag, one.text]);
    const tag = { headers: { "if-none-match": one.headers.etag } };
    expect((await send("/rest/v1/articles?limit=1&title=neq.a%2Fb%20c", tag)).status).toBe(304);
  });

  test.each([12_000, 20_000])("the service decides on a cookie of %i characters", async (length) => {
    const cookie = `a=${"x".repeat(length)}`;
    const status = length < 16_384 ? 200 : 431;
    const answer = await send("/rest/v1/articles?limit=1", { headers: { cookie } });
    expect([answer.status, answer.text.startsWith(status === 200 ? "[" : "{")]).toEqual([status, true]);
    if (status === 431) return;
    const [headers] = await once(ask(openHttp2(), "/rest/v1/articles?limit=1", { ...anon(), cookie }), "response");
    expect(headers[":status"]).toBe(status);
  });

  test.each([
    ["/graphql", 900_000, 200],
    ["/graphql", 1_100_000, 413],
    ["/rest/v1/articles", 15_000_000, 400],
    ["/rest/v1/articles", 20_000_000, 413],
  ])("the service decides on a body for %s of %i bytes", async (path, size, status) => {
    const value = { query: "{ __typename }", variables: { text: "x".repeat(size) } };
    const answer = await post(path, ada(), value);
    expect(answer).toMatchObject({ status, headers: { "content-type": expect.stringMatching(/^application\/json/) } });
  });

  test("the client has its own address, whatever it claims", async () => {
    const claims = { "x-forwarded-for": "203.0.113.9", forwarded: "for=203.0.113.10", "x-real-ip": "203.0.113.11" };
    expect((await post("/auth/login", claims, { username: "x", password: "x" }, "127.0.0.2")).status).toBe(401);
    const apikey = service.service.tokens.issueKey("service_role");
    const events = await send("/auth/admin/events?event=login_failed&limit=1", { headers: { apikey } });
    expect(JSON.parse(events.text).data).toMatchObject([{ address: "127.0.0.2" }]);
  });

  test("events of a stream arrive at once, over HTTP/2 too", async () => {
    const stream = ask(openHttp2(), "/rest/v1/articles?limit=1", { ...ada(), accept: "text/event-stream" });
    let received = "";
    stream.setEncoding("utf8").on("data", (part) => {
      received += part;
    });
    await expect.poll(() => received, POLL).toContain("event: snapshot");
    const { status } = await post("/rest/v1/articles", ada(), { title: "Through a proxy", content: "x" });
    expect(status).toBe(201);
    await expect.poll(() => received, POLL).toContain("Through a proxy");
  });

  test("a page opens a WebSocket", async () => {
    const url = `wss://127.0.0.1:${proxy.port}/graphql`;
    const client = createClient({ url, webSocketImpl: PageSocket, retryAttempts: 0 });
    const { value } = await client.iterate({ query: "{ __typename }" }).next();
    expect(value).toEqual({ data: { __typename: "Query" } });
    await client.dispose();
  });

  test.runIf(name === "nginx")("the log has no query string, and the id of the request", async () => {
    const { headers } = await send("/users?api_key=of-a-client");
    const lines = async () => (await readFile(join(proxy.folder, "log"), "utf8")).split("\n");
    await expect.poll(async () => (await lines()).at(-2), POLL).toContain(headers["x-request-id"]);
    expect((await lines()).join()).not.toContain("of-a-client");
  });
});

import { beforeAll, describe, expect, test } from "vitest";
import { openRaw, type RawSocket } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const SHARE = 1_000_000;
const SETTINGS = { CLIENT_MEMORY: String(4 * SHARE), clientMemoryPerAddress: SHARE };
const ATTACKER = "127.0.0.2";

let service: TestService;
beforeAll(async () => {
  service = await startTestService(SETTINGS);
  return () => service.stop();
});

const held = () => service.service.clientMemory();

/** A request whose body has `sent` bytes so far, of `length`; null for a body in chunks, of which this is the first. */
async function begin(path: string, from: string, sent: number, length: number | null): Promise<RawSocket> {
  const raw = await openRaw(service.url, from);
  const headers = [
    `POST ${path} HTTP/1.1`,
    `Host: ${new URL(service.url).host}`,
    `apikey: ${service.service.tokens.issueKey("anon")}`,
    "Content-Type: application/json",
    length === null ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`,
  ];
  const body = "[".padEnd(sent, " ");
  raw.write(`${headers.join("\r\n")}\r\n\r\n${length === null ? `${sent.toString(16)}\r\n${body}` : body}`);
  return raw;
}

describe.each(["/rest/v1/articles", "/articles", "/graphql", "/auth/login", "/auth/register"])(
  "bodies of %s",
  (path) => {
    test("count while they arrive, and are refused beyond the share of the network", async () => {
      const unfinished: RawSocket[] = [];
      for (let i = 1; i <= 4; i++) {
        unfinished.push(await begin(path, ATTACKER, 240_000, 250_000));
        await expect.poll(held, POLL).toBe(i * 240_000);
      }
      const refused = await begin(path, ATTACKER, 240_000, 250_000);
      expect(await refused.head()).toMatchObject({
        status: 429,
        headers: expect.stringMatching(/\r\nRetry-After: \d/i),
      });
      const other = await begin(path, "127.0.0.3", 100_000, 100_000);
      // The body is not valid JSON, so it has been read.
      expect((await other.head()).status).toBe(400);
      for (const { socket } of unfinished) socket.destroy();
      await expect.poll(held, POLL).toBe(0);
    });

    test("are 413 if they are larger than the share", async () => {
      const large = await begin(path, ATTACKER, 1, SHARE + 1);
      expect((await large.head()).status).toBe(413);
      await expect.poll(held, POLL).toBe(0);
    });
  },
);

describe.each<[what: string, length: number | null, rest: string]>([
  ["with Content-Length", 900_000, " ".repeat(110_000)],
  ["in chunks", null, "\r\n0\r\n\r\n"],
])("a body %s that was refused", (_what, length, rest) => {
  test.each<[string, (raw: RawSocket) => void]>([
    ["is read to its end", (raw) => raw.write(rest)],
    ["is broken off", ({ socket }) => socket.destroy()],
    ["is reset", ({ socket }) => socket.resetAndDestroy()],
  ])("%s, and nothing else happens", async (_how, end) => {
    const first = await begin("/rest/v1/articles", ATTACKER, 240_000, 250_000);
    await expect.poll(held, POLL).toBe(240_000);
    const raw = await begin("/rest/v1/articles", ATTACKER, 790_000, length);
    expect((await raw.head()).status).toBe(429);
    end(raw);
    first.socket.destroy();
    await expect.poll(held, POLL).toBe(0);
    // An exception that nothing catches fails the test; a service stops with it.
    const other = await begin("/rest/v1/articles", ATTACKER, 100_000, 100_000);
    expect((await other.head()).status).toBe(400);
    raw.socket.destroy();
  });
});

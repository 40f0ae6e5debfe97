import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { endAndFree } from "../../gate/pipeline/response.ts";
import { sendInProcess } from "../../parts/console/in-process.ts";

/** More than the kernel buffers for a client that does not read. */
const BYTES = 16_000_000;

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function request(url: string): Promise<IncomingMessage> {
  const sent = get(url, { agent: false });
  sent.on("error", () => {});
  const [response] = await once(sent, "response");
  return response;
}

async function read(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) {
    chunks.push(chunk);
    await turn();
  }
  return Buffer.concat(chunks);
}

describe("a large body that nothing else uses", () => {
  test("is sent whole to a client that begins to read late, and is empty when it is sent", async () => {
    const expected = randomBytes(BYTES);
    const body = Buffer.from(expected);
    const url = await serve((_, response) => endAndFree(response, body));
    const response = await request(url);
    await turn();
    expect(body.length).toBe(BYTES);
    expect((await read(response)).equals(expected)).toBe(true);
    await expect.poll(() => body.length).toBe(0);
  });

  test("is sent whole when it waits for the response before it on the connection", async () => {
    const held: (() => void)[] = [];
    const url = await serve(({ url: path }, response) => {
      const send = () => endAndFree(response, Buffer.alloc(1_000_000, path!.slice(1)));
      if (path === "/a") held.push(send);
      else send();
      // The responses of the later requests have no socket yet.
      if (path === "/c") for (const release of held) release();
    });
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write(["/a", "/b", "/c"].map((path) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`).join(""));
    let text = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => {
      text += chunk;
    });
    await expect
      .poll(() => text.split("HTTP/1.1 200").map((part) => part.split("\r\n\r\n")[1]?.length))
      .toEqual([undefined, 1_000_000, 1_000_000, 1_000_000]);
    expect([...text.matchAll(/\r\n\r\n(\w)\1+/g)].map(([all, letter]) => [letter, all.length])).toEqual(
      ["a", "b", "c"].map((letter) => [letter, 1_000_004]),
    );
  });

  test("is sent whole after another response of the connection", async () => {
    const url = await serve((_, response) => endAndFree(response, Buffer.alloc(1_000_000, "b")));
    for (let i = 0; i < 3; i++) expect(await (await fetch(url)).text()).toBe("b".repeat(1_000_000));
  });

  test("whose client disconnects harms nothing", async () => {
    let closed = 0;
    const url = await serve((_, response) => {
      response.once("close", () => closed++);
      endAndFree(response, Buffer.alloc(BYTES, "c"));
    });
    for (let i = 0; i < 5; i++) {
      const response = await request(url);
      response.once("data", () => response.destroy());
      await once(response, "close");
    }
    await expect.poll(() => closed).toBe(5);
    expect((await read(await request(url))).equals(Buffer.alloc(BYTES, "c"))).toBe(true);
  });

  test("stays whole where it is not sent on a socket", async () => {
    const expected = randomBytes(1_000_000);
    const { body } = (await sendInProcess(
      (_, response) => endAndFree(response, Buffer.from(expected)),
      { method: "GET", path: "/", headers: {}, body: "" },
      { size: BYTES, timeout: 120_000 },
    ))!;
    await turn();
    expect(body.equals(expected)).toBe(true);
  });
});

test("a small body is not changed", async () => {
  const body = Buffer.from("small");
  const url = await serve((_, response) => endAndFree(response, body));
  expect(await (await fetch(url)).text()).toBe("small");
  await turn();
  expect(body.toString()).toBe("small");
});

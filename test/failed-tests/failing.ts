import { once } from "node:events";
import { createServer } from "node:http";
import { afterAll, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { send } from "../support/http-client.ts";
import { recorded } from "../support/transcript.ts";

// Tests that fail, for output.all.test.ts.
const server = createServer((request, response) => {
  response.writeHead(request.url === "/notes" ? 409 : 200, { "content-type": "application/json" });
  response.end(JSON.stringify({ path: request.url }));
});
new WebSocketServer({ server }).on("connection", (socket) => {
  socket.on("message", () => socket.send('{"type":"welcome"}'));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
afterAll(() => server.closeAllConnections());
const url = `http://127.0.0.1:${(server.address() as { port: number }).port}`;

test("one that passes", async () => {
  expect((await send(`${url}/before`)).status).toBe(200);
});

test("one with supertest and fetch", async () => {
  await (await fetch(`${url}/first`)).text();
  const headers = { authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl" };
  const { status } = await send(`${url}/notes`, { method: "POST", headers, body: "x".repeat(1200) });
  expect(status).toBe(201);
});

test("one with a socket", async () => {
  const socket = new (recorded(WebSocket))(url.replace("http", "ws"));
  await once(socket, "open");
  socket.send('{"type":"hello"}');
  await once(socket, "message");
  socket.terminate();
  expect(socket.readyState).toBe(WebSocket.OPEN);
});

import { expect, onTestFinished, test } from "vitest";
import { HttpServer, urlOf } from "../../http/server.ts";
import { upgrade } from "../support/raw-socket.ts";

test("a WebSocket upgrade before the service is ready is answered as a plain request", async () => {
  const server = new HttpServer((_request, response) => void response.writeHead(503).end());
  onTestFinished(() => server.close());
  await server.listen({ host: "127.0.0.1", port: 0 });
  const socket = await upgrade(urlOf({ host: "127.0.0.1", port: server.port }));
  expect((await socket.head()).status).toBe(503);
});

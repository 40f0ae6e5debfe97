import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { receiveMessages } from "../../gate/limits/socket-messages.ts";
import { Turns } from "../../gate/limits/turns.ts";
import { POLL } from "../support/until.ts";

/** Sockets of one network, and the first seven characters of the messages that have been handled. */
async function openSockets(turns: Turns) {
  const handled: string[] = [];
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false });
  onTestFinished(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  await once(server, "listening");
  const open = async () => {
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const [[accepted]] = await Promise.all([once(server, "connection"), once(client, "open")]);
    receiveMessages(accepted, { network: "192.0.2.1", turns }, (data) => handled.push(data.toString().slice(0, 7)));
    return { client, accepted: accepted as WebSocket };
  };
  return { handled, first: await open(), second: await open() };
}

test("the messages of a socket are handled in order, and while a long one waits, no more is read from it and others overtake it", async () => {
  let now = 0;
  const turns = new Turns({
    time: 0,
    now: () => now,
    running: 10,
    utilization: () => 0,
  });
  const { handled, first, second } = await openSockets(turns);
  turns.add({ client: () => "user 1", run: () => {}, refuse: () => {} });
  let isLong = false;
  const run = () => {
    isLong = true;
    now += 10;
  };
  turns.add({ client: () => "192.0.2.2", run, message: 5000 });
  await expect.poll(() => isLong, POLL).toBe(true);

  first.client.send(`first 1${" ".repeat(20_000)}`);
  first.client.send("first 2");
  await expect.poll(() => first.accepted.isPaused, POLL).toBe(true);
  second.client.send("second1");
  await expect.poll(() => handled, POLL).toEqual(["second1"]);

  now += 2000;
  await expect.poll(() => handled, POLL).toEqual(["second1", "first 1", "first 2"]);
  expect(first.accepted.isPaused).toBe(false);
});

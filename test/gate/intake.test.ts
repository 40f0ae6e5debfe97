import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Turns } from "../../gate/limits/turns.ts";

/** A server whose requests are read as `Turns.intake` decides. The path of a request is `/client/number`. */
async function open() {
  const state = { waiting: 0, isBusy: true };
  const received: string[] = [];
  const utilization = () => (state.isBusy ? 1 : 0);
  const turns = new Turns({ time: 0, running: 1, utilization });
  turns.database = {
    get waiting() {
      return state.waiting;
    },
    sendReads: () => {},
  };
  const { intake } = turns;
  const server = createServer((request, response) => {
    const client = request.url!.split("/")[1]!;
    received.push(request.url!.slice(1));
    response.once("close", () => intake.answered(() => client, request.socket));
    response.end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    state.waiting = 0;
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  /** A connection that has had its first response. */
  const connection = async (path: string): Promise<Connection> => {
    const socket = connect(port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    return new Connection(socket).send(path);
  };
  return { state, received, connection };
}

class Connection {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Resolves with the connection when the response has arrived. */
  async send(path: string): Promise<this> {
    this.#socket.write(`GET /${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await once(this.#socket, "data");
    return this;
  }
}

test("while requests wait in a busy process, a connection is read again only when fewer wait", async () => {
  const { state, received, connection } = await open();
  state.waiting = 100;
  const ada = await connection("ada/1");
  const second = ada.send("ada/2");
  // A new connection is read: its request has been sent after the other.
  await connection("bob/1");
  expect(received).toEqual(["ada/1", "bob/1"]);
  state.waiting = 99;
  await second;
  expect(received).toEqual(["ada/1", "bob/1", "ada/2"]);
});

test("the clients whose connections wait are read in turn", async () => {
  const { state, received, connection } = await open();
  state.waiting = 100;
  const paths = ["ada/1", "ada/2", "ada/3", "bob/4", "cid/5"];
  const connections: Connection[] = [];
  for (const path of paths) connections.push(await connection(path));
  const answers = connections.map((each, i) => each.send(paths[i]!));
  received.length = 0;
  // From now on one connection is read at a time.
  state.waiting = 99;
  await Promise.all(answers);
  expect(received).toEqual(["ada/1", "bob/4", "cid/5", "ada/2", "ada/3"]);
});

test.each([
  ["few requests wait", { waiting: 99, isBusy: true }],
  ["the database is slow, but the process is not busy", { waiting: 1000, isBusy: false }],
])("while %s, connections are read at once", async (_when, given) => {
  const { state, received, connection } = await open();
  Object.assign(state, given);
  const ada = await connection("ada/1");
  await ada.send("ada/2");
  expect(received).toEqual(["ada/1", "ada/2"]);
});

test("a connection that is held is read when the process is not busy any more", async () => {
  const { state, received, connection } = await open();
  state.waiting = 100;
  const ada = await connection("ada/1");
  const second = ada.send("ada/2");
  state.isBusy = false;
  await second;
  expect(received).toEqual(["ada/1", "ada/2"]);
});

test("a connection is not held while a request that it has sent runs, because Node may have stopped to parse it", async () => {
  const turns = new Turns({ time: 0, running: 1, utilization: () => 1 });
  turns.database = { waiting: 100, sendReads: () => {} };
  const responses: ServerResponse[] = [];
  const held: boolean[] = [];
  const server = createServer(({ socket }, response) => {
    responses.push(response);
    response.once("close", () => {
      turns.intake.answered(() => "ada", socket);
      held.push(socket.isPaused());
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => {
    turns.database = null;
    client.destroy();
    server.close();
  });
  client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
  await expect.poll(() => responses.length).toBe(2);
  responses[0]!.end();
  await expect.poll(() => held).toEqual([false]);
  responses[1]!.end();
  await expect.poll(() => held).toEqual([false, true]);
});

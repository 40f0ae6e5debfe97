import { connect, type Socket } from "node:net";
import type { HttpRequest } from "../case.ts";
import { bytesOf } from "../http-messages.ts";

/** Not the address of the load tool. */
const ADDRESS = "127.0.0.2";

/** Opens sockets that each send the request and never read. A socket that the server closes is opened again. */
export function startAttack(request: HttpRequest, url: string, sockets: number): Disposable {
  const bytes = bytesOf(request, url);
  const { hostname, port } = new URL(url);
  const open = new Set<Socket>();
  let isOver = false;
  const attack = () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: ADDRESS });
    // Before it is connected: otherwise Node begins to read.
    socket.pause();
    socket.on("error", () => {});
    socket.once("close", () => {
      open.delete(socket);
      if (!isOver) setTimeout(() => isOver || attack(), REOPEN_MILLISECONDS);
    });
    socket.write(bytes);
    open.add(socket);
  };
  for (let i = 0; i < sockets; i++) attack();
  return {
    [Symbol.dispose]() {
      isOver = true;
      for (const socket of open) socket.destroy();
    },
  };
}

const REOPEN_MILLISECONDS = 100;

/** Requests that are read slowly. `received` is the number of bytes so far. */
export type SlowReaders = Disposable & { readonly received: number };

/** Sends the request over some sockets and reads each response with at most so many bytes per second. */
export function startSlowReaders(request: HttpRequest, url: string, sockets: number, rate: number): SlowReaders {
  const { hostname, port } = new URL(url);
  let received = 0;
  const timers = new Set<NodeJS.Timeout>();
  const open = Array.from({ length: sockets }, () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress: ADDRESS });
    let allowed = 0;
    socket.on("error", () => {});
    socket.on("data", ({ length }) => {
      received += length;
      allowed -= length;
      if (allowed <= 0) socket.pause();
    });
    const timer = setInterval(() => {
      allowed += (rate * READ_MILLISECONDS) / 1000;
      if (allowed > 0) socket.resume();
    }, READ_MILLISECONDS);
    timers.add(timer);
    socket.write(bytesOf(request, url));
    return socket;
  });
  return {
    get received() {
      return received;
    },
    [Symbol.dispose]() {
      for (const timer of timers) clearInterval(timer);
      for (const socket of open) socket.destroy();
    },
  };
}

const READ_MILLISECONDS = 50;

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

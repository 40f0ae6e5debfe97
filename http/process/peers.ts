import type { Worker } from "node:cluster";
import cluster from "node:cluster";

/** What a worker says to the others: plain data. `from` is the number of the worker. */
type FromPeer<Message> =
  | { readonly kind: "peer"; readonly from: number; readonly message: Message }
  | { readonly kind: "peer ended"; readonly from: number };

/** The other workers of the service. */
export type Peers<Message> = {
  /** The number of this worker. */
  readonly own: number;
  send(message: Message): void;
  /** `onEnd` is called when a worker has ended. Messages of one worker arrive in order. */
  listen(onMessage: (message: Message, from: number) => void, onEnd: (from: number) => void): void;
};

/** In the primary process: passes the messages of each worker on to the others. */
export function connectPeers(): void {
  cluster.on("fork", (worker) => {
    const pass = (message: FromPeer<unknown>) => {
      for (const other of Object.values(cluster.workers ?? {}))
        if (other !== worker && other!.isConnected()) send(other!, message);
    };
    worker.on("message", (message: FromPeer<unknown>) => message.kind === "peer" && pass(message));
    worker.once("exit", () => pass({ kind: "peer ended", from: worker.id }));
  });
}

/** In a worker; null in a service of one process. */
export function peersOf<Message>(): Peers<Message> | null {
  if (!cluster.isWorker) return null;
  const own = cluster.worker!.id;
  return {
    own,
    send: (message) => send(process, { kind: "peer", from: own, message }),
    listen(onMessage, onEnd) {
      process.on("message", (received: FromPeer<Message> | { readonly kind: "" }) => {
        if (received.kind === "peer") onMessage(received.message, received.from);
        else if (received.kind === "peer ended") onEnd(received.from);
      });
    },
  };
}

/** With a callback, sending to a process that has ended does not emit an error event. */
const send = (peer: NodeJS.Process | Worker, message: FromPeer<unknown>) => (peer as Worker).send(message, () => {});

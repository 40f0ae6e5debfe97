import type { Worker } from "node:cluster";
import cluster from "node:cluster";

/** What happens to the other processes of the service. */
export type PeerListener = {
  /** Messages of one process arrive in order. They may have any form. Returns whether this one is valid, and not too large. */
  onMessage(message: unknown, from: string): boolean;
  /** The process knows nothing of this one: it has started, or messages may have been lost. It expects to be told everything. */
  onJoin(from: string): void;
  /** The process has ended, or is silent. */
  onEnd(from: string): void;
};

/** The other processes of the service: workers, or all processes with the same REDIS_URL. */
export type Peers = {
  /** The name of this process, unique among them. */
  readonly own: string;
  /** Sends plain data to all, or to one. False if it cannot be handed over. */
  send(message: unknown, to?: string): boolean | Promise<boolean>;
  listen(listener: PeerListener): void;
  close(): Promise<void>;
};

/** What a worker says to the others, or to one; without a message, that it has started. */
type FromPeer =
  | { readonly kind: "peer"; readonly from: string; readonly to?: string; readonly message?: unknown }
  | { readonly kind: "peer ended"; readonly from: string };

/** In the primary process: passes the messages of each worker on to the others. */
export function connectPeers(): void {
  cluster.on("fork", (worker) => {
    const pass = (message: FromPeer, to: string | null = null) => {
      for (const other of Object.values(cluster.workers ?? {}))
        if (other !== worker && other!.isConnected() && (to === null || to === String(other!.id)))
          send(other!, message);
    };
    worker.on("message", (message: FromPeer) => message.kind === "peer" && pass(message, message.to));
    worker.once("exit", () => pass({ kind: "peer ended", from: String(worker.id) }));
  });
}

/** The other workers; null in a service of one process. */
export function workerPeers(): Peers | null {
  if (!cluster.isWorker) return null;
  const own = String(cluster.worker!.id);
  const sendTo = (rest: Pick<FromPeer & { kind: "peer" }, "to" | "message">) => {
    send(process, { kind: "peer", from: own, ...rest });
    return true;
  };
  return {
    own,
    send: (message, to) => sendTo({ message, ...(to !== undefined && { to }) }),
    listen({ onMessage, onJoin, onEnd }) {
      process.on("message", (received: FromPeer | { readonly kind: "" }) => {
        if (received.kind === "peer ended") onEnd(received.from);
        else if (received.kind !== "peer") return;
        else if (received.message === undefined) onJoin(received.from);
        else onMessage(received.message, received.from);
      });
      sendTo({});
    },
    close: async () => {},
  };
}

/** With a callback, sending to a process that has ended does not emit an error event. */
const send = (peer: NodeJS.Process | Worker, message: FromPeer) => (peer as Worker).send(message, () => {});

import type { RawData, WebSocket } from "ws";
import type { Turns } from "./turns.ts";

/** Returns a promise if the message has not been handled at once. */
export type MessageListener = (data: RawData, isBinary: boolean) => unknown;

export type SocketMessagesOptions = {
  /** Under which the time for the messages is counted. */
  readonly network: string;
  readonly turns: Turns;
};

type Message = { readonly data: RawData; readonly isBinary: boolean; readonly bytes: number };

/** Bytes of messages that may wait before no more is read from their socket. */
const MAX_WAITING = 16_384;

/** Handles the messages of a socket in order. Only the first of them waits for a turn, so messages of other sockets can overtake it. */
export function receiveMessages(
  websocket: WebSocket,
  { network, turns }: SocketMessagesOptions,
  listener: MessageListener,
): void {
  const waiting: Message[] = [];
  let bytes = 0;
  const client = () => network;
  const run = () => {
    const { data, isBinary, bytes: taken } = waiting.shift()!;
    bytes -= taken;
    if (websocket.isPaused && bytes <= MAX_WAITING) websocket.resume();
    if (waiting.length > 0) add();
    return listener(data, isBinary);
  };
  const add = () => turns.add({ client, run, message: waiting[0]!.bytes });
  websocket.on("message", (data, isBinary) => {
    // It is being closed: the client has sent too much, or what is malformed.
    if (websocket.readyState !== websocket.OPEN) return;
    const message = { data, isBinary, bytes: (data as Buffer).length };
    bytes += message.bytes;
    if (waiting.push(message) === 1) add();
    if (bytes > MAX_WAITING) websocket.pause();
  });
}

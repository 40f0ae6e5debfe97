import type { FormattedExecutionResult } from "postgraphile/graphql";
import type { WebSocket } from "ws";
import type { ByteBudget, Holder, Holding } from "../../db/admission/byte-budget.ts";

type SenderOptions = {
  readonly network: string;
  readonly budget: ByteBudget;
  /** Ends the socket if memory is short. */
  readonly holder: Holder;
  /** Maximum bytes buffered for a slow client, without the results of queries and mutations. */
  readonly maxBufferedBytes: number;
};

const TOO_SLOW = 4429;

/** Cannot occur in a string, in which quotes are escaped; only the id of the operation stands before it. */
const DATA = '"payload":{"data":0';

/** Sends the messages of one socket, and counts what the client has not taken yet. */
export class SocketSender {
  readonly #socket: WebSocket;
  readonly #options: SenderOptions;
  readonly #results: Holding;
  readonly #others: Holding;
  /** Whether the next message is a result that may wait until the client takes it. */
  #mayWait = false;
  /** The JSON text of `data` in the next message; null if the message is complete. */
  #data: string | null = null;

  constructor(socket: WebSocket, options: SenderOptions) {
    const { network, budget, holder } = options;
    this.#socket = socket;
    this.#options = options;
    this.#results = budget.hold(network, "responses", holder);
    this.#others = budget.hold(network, "messages", holder);
  }

  close(): void {
    this.#results.close();
    this.#others.close();
  }

  /**
   * The payload of a result of a query or mutation, whose `data` is JSON text. graphql-ws writes the payload as JSON just before it
   * sends it, with 0 instead of `data`, which `send` replaces. `hasReadRows`: whether the limits of unread results applied before.
   */
  result({ data, ...rest }: FormattedExecutionResult, hasReadRows: boolean): object {
    return {
      data,
      ...rest,
      toJSON: () => {
        this.#mayWait = hasReadRows || !this.#isOverLimits();
        this.#data = typeof data === "string" ? data : null;
        return { data: this.#data === null ? data : 0, ...rest };
      },
    };
  }

  /**
   * Sends a message. The client requests results, so a large one may take its time, like a response over HTTP. The client does not
   * request events one by one: if it does not take them, it is disconnected. So is a client that requests more and more results that
   * need no database, such as those of introspection, because no other limit applies to them.
   */
  async send(message: string): Promise<void> {
    const [socket, data, mayWait] = [this.#socket, this.#data, this.#mayWait];
    this.#data = null;
    this.#mayWait = false;
    if (socket.readyState !== socket.OPEN) return;
    // The socket's own count, `bufferedAmount`, is of characters.
    if (!mayWait && this.#others.bytes > this.#options.maxBufferedBytes)
      return socket.close(TOO_SLOW, "the client reads too slowly");
    const text = data === null ? message : withData(message, data);
    const bytes = Buffer.byteLength(text);
    const unread = mayWait ? this.#results : this.#others;
    // The limits applied to a result before it was read from the database.
    if (mayWait) unread.add(bytes);
    else if (!unread.send(bytes)) return;
    socket.send(text, () => unread.give(bytes));
  }

  /** Whether the client reads slowly, and the limits of unread results are reached. */
  #isOverLimits(): boolean {
    const { maxBufferedBytes, budget, network } = this.#options;
    return this.#results.bytes > maxBufferedBytes && budget.limitReached(network) !== null;
  }
}

function withData(message: string, data: string): string {
  const end = message.indexOf(DATA) + DATA.length;
  return `${message.slice(0, end - 1)}${data}${message.slice(end)}`;
}

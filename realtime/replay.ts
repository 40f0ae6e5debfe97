import type { Holding, Recipient } from "../db/admission/byte-budget.ts";
import { pieces } from "../db/admission/pieces.ts";
import type { Caller } from "../db/caller.ts";
import { recipientOf } from "../gate/pipeline/exchange.ts";
import { type Broadcast, BroadcastMessages, faultOf } from "./broadcast.ts";
import type { ChannelAccess } from "./channel-access.ts";
import type { JoinRequest, ReplayRequest } from "./join.ts";
import { noReplay } from "./problem.ts";
import type { Frame } from "./serializer.ts";
import type { ChannelSocket } from "./socket.ts";
import type { Topics } from "./topics.ts";

export type ReplayOptions = {
  readonly access: Pick<ChannelAccess, "replay">;
  readonly topics: Pick<Topics, "onDelivery">;
  readonly socket: ChannelSocket;
  readonly request: Pick<JoinRequest, "topic" | "name">;
  readonly caller: Caller;
};

/** A broadcast as it is sent. `message` is null if the version of the client cannot carry it. */
type Written = { readonly id: string; readonly message: Frame | null };

/**
 * Broadcasts from SQL for a channel that is being joined: the stored ones, and those that arrive while they are read, which they may
 * contain. So the channel misses none, and gets none twice. It must be closed.
 */
export class Replay {
  readonly #options: ReplayOptions;
  readonly #stored: Written[] = [];
  readonly #arrived: Written[] = [];
  /** Counts the stored ones. */
  readonly #recipient: Recipient;
  /** Counts those that arrive. */
  readonly #held: Holding;
  readonly #stop: () => void;
  #isComplete = true;

  constructor(options: ReplayOptions) {
    const { topics, socket, request, caller } = options;
    this.#options = options;
    this.#held = socket.hold(0);
    this.#recipient = recipientOf(socket.exchange.identity, caller);
    this.#stop = topics.onDelivery(request.topic, true, (broadcast) => this.#arrive(broadcast));
  }

  /** Reads the stored broadcasts that the caller may read. Rejects with Problem. */
  async read({ since, limit }: ReplayRequest): Promise<void> {
    const { access, socket, request, caller } = this.#options;
    const context = { ...socket.request, recipient: this.#recipient };
    const rows = await access.replay(request.name, [since, limit], { caller, request: context });
    for (const [id, event, json, base64] of rows) {
      // One may have 256 kB.
      await pieces.next(socket.network);
      const isJson = json !== null;
      const bytes = isJson ? json! : Buffer.from(String(base64), "base64");
      const meta = { replayed: true, id: String(id) } as const;
      const broadcast: Broadcast = { event: String(event), body: { isJson, bytes }, meta };
      if (faultOf(broadcast, socket.maxDepth) === null) this.#stored.push(this.#write(broadcast));
    }
  }

  /** The ids of the stored broadcasts. Throws Problem if one that has arrived could not be held. */
  ids(): ReadonlySet<string> {
    if (!this.#isComplete) throw noReplay();
    return new Set(this.#stored.map(({ id }) => id));
  }

  /** Sends all, oldest first, to a channel that is a member of its topic from now on. */
  send(): void {
    const { socket } = this.#options;
    const replayed = this.ids();
    // From here on, the socket counts them.
    this.close();
    const missed = this.#arrived.filter(({ id }) => !replayed.has(id));
    for (const { message } of [...this.#stored, ...missed]) if (message !== null) socket.send(message);
  }

  close(): void {
    this.#stop();
    this.#held.close();
    this.#recipient.close();
  }

  #arrive(broadcast: Broadcast): void {
    if (this.#held.take(broadcast.body.bytes.length)) this.#arrived.push(this.#write(broadcast));
    else this.#isComplete = false;
  }

  #write(broadcast: Broadcast): Written {
    const { socket, request } = this.#options;
    const messages = new BroadcastMessages(request.topic, broadcast);
    return { id: broadcast.meta!.id, message: messages.of(socket.version) };
  }
}

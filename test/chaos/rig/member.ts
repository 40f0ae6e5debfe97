import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type RealtimeChannel, type SupabaseClient } from "@supabase/supabase-js";
import { WebSocket } from "ws";
import { type Load, repeat } from "./load.ts";
import { headersOf, KEY } from "./requests.ts";

type Message = { readonly from: string; readonly connection: number; readonly n: number };

/** A client of a channel, which is present, sends broadcasts and receives those of the others. */
export class Member {
  readonly name: string;
  /** The number of its last broadcast. */
  sent = 0;
  readonly #received = new Map<string, Message>();
  readonly #report: (violation: string) => void;
  readonly #client: SupabaseClient<any, any>;
  readonly #channel: RealtimeChannel;
  readonly #sending: Load;
  #connection = 0;
  #answer = "none";

  /** `user` is that of the client, which has a rate limit of its own. */
  constructor(url: string, name: string, user: number, report: (violation: string) => void) {
    this.name = name;
    const [, token] = headersOf(user).authorization!.split(" ");
    this.#report = report;
    const realtime = { transport: WebSocket as never, reconnectAfterMs: () => 200 };
    this.#client = createClient(url, KEY, { accessToken: async () => token!, realtime });
    const config = { broadcast: { ack: true }, presence: { key: name } };
    this.#channel = this.#client.channel("rig", { config });
    this.#channel
      .on("broadcast", { event: "count" }, ({ payload }) => this.#receive(payload as Message))
      .on("presence", { event: "sync" }, () => {})
      .subscribe((status) => {
        if (status !== "SUBSCRIBED") return;
        this.#connection++;
        void this.#track(this.#connection);
      });
    this.#sending = repeat(() => this.#send(), 200);
  }

  /** Who is present, as it knows. */
  get present(): readonly string[] {
    return Object.keys(this.#channel.presenceState()).sort();
  }

  /** The last broadcast that it has received of that member. */
  lastOf = (other: Member): number => this.#received.get(other.name)?.n ?? 0;

  /** For the report of what does not arrive. */
  get state(): string {
    return `${this.name} is ${this.#channel.state}, has sent ${this.sent}, and its last answer is ${this.#answer}`;
  }

  async close(): Promise<void> {
    this.#connection = Number.POSITIVE_INFINITY;
    await this.#sending.stop();
    await this.#client.removeAllChannels();
    await this.#client.realtime.disconnect();
  }

  /** Again until it is accepted, unless the channel has joined again. */
  async #track(connection: number): Promise<void> {
    while (connection === this.#connection && (await this.#channel.track({})) !== "ok") await sleep(200);
  }

  async #send(): Promise<void> {
    // Otherwise the client would send it over HTTP.
    if ((this.#channel.state as string) !== "joined") return;
    const payload: Message = { from: this.name, connection: this.#connection, n: ++this.sent };
    this.#answer = await this.#channel.send({ type: "broadcast", event: "count", payload });
  }

  /** What a sender has sent over two connections may arrive in any order. */
  #receive(message: Message): void {
    const last = this.#received.get(message.from);
    if (last?.connection === message.connection && message.n <= last.n)
      this.#report(`${this.name} received broadcast ${message.n} of ${message.from} after ${last.n}`);
    if (message.n > (last?.n ?? 0)) this.#received.set(message.from, message);
  }
}

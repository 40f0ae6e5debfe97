import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { WebSocket } from "ws";
import { Received } from "./received.ts";

/** The options of the channel. The client sends them with each join. */
type ChangesOptions = { readonly positions: true; since?: string };

const PAUSE_MILLISECONDS = 50;

/** A channel of supabase-js, which keeps the last position and the ids of the rows. */
export class ChannelSubscriber {
  readonly received: Received;
  connections = 0;
  /** The longest time in milliseconds from the arrival of a row that arrives again to the loss of its connection. */
  oldestDuplicate: number | null = null;
  readonly #arrivals = new Map<number, number>();
  /** When connections were lost, and attempts to connect failed. */
  readonly #losses: number[] = [];
  readonly #options: ChangesOptions = { positions: true };
  readonly #client: SupabaseClient<any, any>;
  #socket: WebSocket | null = null;
  /** The table is read when the channel has joined again. */
  #mustRead = false;

  /** `table` is in the schema public. `read` returns the ids of all its rows, which are needed after a gap. */
  constructor(url: string, key: string, table: string, read?: () => Promise<readonly number[]>) {
    this.received = new Received(read);
    const opened = (socket: WebSocket) => {
      this.#socket = socket;
      socket.once("close", () => this.#losses.push(performance.now()));
    };
    class Transport extends WebSocket {
      constructor(address: string | URL, protocols?: string | string[]) {
        super(address, protocols);
        opened(this);
      }
    }
    const realtime = { transport: Transport as never, reconnectAfterMs: () => PAUSE_MILLISECONDS };
    this.#client = createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false }, realtime });
    const config = { postgres_changes_options: this.#options } as object;
    this.#client
      .channel("chaos", { config })
      .on("postgres_changes", { event: "INSERT", schema: "public", table }, ({ new: row }) => this.#add(row.id))
      .on("system", {}, (message) => this.#receive(message))
      .subscribe((status, error) => {
        // The position is not kept any more.
        if (status === "CHANNEL_ERROR" && error?.message.includes("Gap")) this.#startAgain();
        if (status !== "SUBSCRIBED") return;
        this.connections++;
        if (this.#mustRead) this.received.readAgain();
        this.#mustRead = false;
      });
  }

  /** Whether it can resume. */
  get isReady(): boolean {
    return this.#options.since !== undefined;
  }

  /** A network ends the connection. */
  cut(): void {
    this.#socket?.terminate();
  }

  async close(): Promise<void> {
    await this.#client.removeAllChannels();
    await this.#client.realtime.disconnect();
  }

  #add(id: number): void {
    this.#mustRead = false;
    this.received.add([id]);
    const arrival = this.#arrivals.get(id);
    this.#arrivals.set(id, performance.now());
    if (arrival === undefined) return;
    const loss = this.#losses.find((at) => at >= arrival) ?? Number.POSITIVE_INFINITY;
    this.oldestDuplicate = Math.max(this.oldestDuplicate ?? 0, Math.round(loss - arrival));
  }

  #receive({ gap, position }: { readonly gap?: boolean; readonly position?: string }): void {
    if (gap) {
      this.#startAgain();
      // The channel stays open, or joins again.
      this.received.readAgain();
    }
    if (position !== undefined) this.#options.since = position;
  }

  #startAgain(): void {
    this.received.gaps++;
    delete this.#options.since;
    this.#mustRead = true;
  }
}

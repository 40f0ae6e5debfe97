import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { WebSocket } from "ws";

/** The options of the channel. The client sends them with each join. */
type ChangesOptions = { readonly positions: true; since?: string };

const PAUSE_MILLISECONDS = 50;

/** A channel of supabase-js, which keeps the last position and the ids of the rows. */
export class ChannelSubscriber {
  readonly ids: number[] = [];
  /** How often the service has said that changes were missed. */
  gaps = 0;
  connections = 0;
  /** The longest time in milliseconds from the first arrival of a row that arrived again to the loss of the connection. */
  oldestDuplicate: number | null = null;
  readonly #arrivals = new Map<number, number>();
  #lostAt = 0;
  readonly #options: ChangesOptions = { positions: true };
  readonly #client: SupabaseClient<any, any>;
  #socket: WebSocket | null = null;

  /** `table` is in the schema public. */
  constructor(url: string, key: string, table: string) {
    const opened = (socket: WebSocket) => {
      this.#socket = socket;
      const lost = () => {
        this.#lostAt = performance.now();
      };
      // Attempts to connect while the service is away do not count.
      socket.once("open", () => socket.once("close", lost));
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
      .subscribe((status) => {
        if (status === "SUBSCRIBED") this.connections++;
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
    this.ids.push(id);
    const arrival = this.#arrivals.get(id);
    if (arrival === undefined) this.#arrivals.set(id, performance.now());
    else this.oldestDuplicate = Math.max(this.oldestDuplicate ?? 0, Math.round(this.#lostAt - arrival));
  }

  #receive({ gap, position }: { readonly gap?: boolean; readonly position?: string }): void {
    if (gap) this.gaps++;
    if (position !== undefined) this.#options.since = position;
  }
}

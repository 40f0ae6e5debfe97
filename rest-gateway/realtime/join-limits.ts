import { tooManyChannels, tooManyJoins } from "./problem.ts";

/** The names are those of the service's settings. */
export type JoinLimitSettings = {
  /** Channels of one socket. */ readonly realtimeMaxChannels: number;
  /** Channels of all sockets from one IP address, or from one IPv6 network. */
  readonly realtimeMaxChannelsPerAddress: number;
  /** Joins per second on one socket. */ readonly realtimeJoinRate: number;
  /** Joins per second on all sockets from one IP address, or from one IPv6 network. */
  readonly realtimeJoinRatePerAddress: number;
};

/** Counts the joins of the current second, and channels. */
class Counter {
  channels = 0;
  #second = 0;
  #joins = 0;

  /** The number of joins in this second. */
  join(second: number): number {
    if (second !== this.#second) this.#joins = 0;
    this.#second = second;
    return ++this.#joins;
  }
}

/** Limits the channels of each socket, and of each IP address or IPv6 network. */
export class JoinLimits {
  readonly #settings: JoinLimitSettings;
  readonly #networks = new Map<string, { readonly counter: Counter; sockets: number }>();

  constructor(settings: JoinLimitSettings) {
    this.#settings = settings;
  }

  /** The counts of a new socket. They must be closed with it. */
  open(network: string): SocketJoins {
    const known = this.#networks.get(network) ?? { counter: new Counter(), sockets: 0 };
    this.#networks.set(network, known);
    known.sockets++;
    return new SocketJoins(this.#settings, known.counter, () => {
      if (--known.sockets === 0) this.#networks.delete(network);
    });
  }
}

/** The channels of one socket. */
export class SocketJoins {
  readonly #settings: JoinLimitSettings;
  readonly #network: Counter;
  readonly #own = new Counter();
  readonly #onClosed: () => void;

  /** Used by JoinLimits only. */
  constructor(settings: JoinLimitSettings, network: Counter, onClosed: () => void) {
    this.#settings = settings;
    this.#network = network;
    this.#onClosed = onClosed;
  }

  /** Counts a join. Throws ChannelError if there are too many in this second. */
  countJoin(): void {
    const { realtimeJoinRate, realtimeJoinRatePerAddress } = this.#settings;
    const second = Math.floor(Date.now() / 1000);
    const isOver = this.#own.join(second) > realtimeJoinRate;
    if (this.#network.join(second) > realtimeJoinRatePerAddress || isOver) throw tooManyJoins();
  }

  /** Throws ChannelError if there can be no further channel. */
  admitChannel(): void {
    const { realtimeMaxChannels, realtimeMaxChannelsPerAddress } = this.#settings;
    if (this.#own.channels >= realtimeMaxChannels) throw tooManyChannels(realtimeMaxChannels, "socket");
    if (this.#network.channels >= realtimeMaxChannelsPerAddress)
      throw tooManyChannels(realtimeMaxChannelsPerAddress, "IP address");
  }

  /** Counts a channel. The result must be called once, when it is closed. */
  openChannel(): () => void {
    for (const counter of [this.#own, this.#network]) counter.channels++;
    return () => {
      for (const counter of [this.#own, this.#network]) counter.channels--;
    };
  }

  close(): void {
    this.#onClosed();
  }
}

import type { ServerResponse } from "node:http";
import type { Logger } from "pino";
import { progressOf } from "./connection-limits.ts";

/** Bytes per second. A client that reads less, while more is ready for it, is slow. */
const MIN_RATE = 32_768;
/** Milliseconds between two checks. */
const INTERVAL = 2500;
/**
 * Checks over which the rate is measured: long enough for clients that read fast, because the system takes up to a megabyte at once
 * and then nothing. Checks are counted instead of time: a busy process may send less than its clients could read.
 */
export const CHECKS = 8;
const MIN_BYTES = (MIN_RATE * INTERVAL * CHECKS) / 1000;

/** The streams that share connections to the database. */
export type StreamQueue = {
  /** How many further streams could start if streams ended. */
  readonly waitingStreams: number;
};

/** A response that is streamed. */
export type Streamed = {
  readonly response: ServerResponse;
  readonly network: string;
  readonly queue: StreamQueue;
};

/** `sent`: bytes that the system had accepted at the latest checks, at each of which more was ready. */
type Watched = Streamed & { readonly sent: number[]; isBroken: boolean };

type SlowStreamsOptions = {
  readonly log: Logger;
  /** Called with the name of the setting when a stream is broken off. */
  onLimit?(setting: string): void;
};

/**
 * Breaks off streams that their clients read slowly, as many as other streams wait for: first those of the network that has the most
 * slow ones. Streams for which no other waits go on.
 */
export class SlowStreams {
  readonly #options: SlowStreamsOptions;
  readonly #open = new Set<Watched>();
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SlowStreamsOptions) {
    this.#options = options;
  }

  /** Checks the stream until the result is called, when its connection to the database is free. */
  watch(streamed: Streamed): () => void {
    const watched: Watched = { ...streamed, sent: [], isBroken: false };
    this.#open.add(watched);
    this.#timer ??= setInterval(() => this.check(), INTERVAL).unref();
    return () => void this.#open.delete(watched);
  }

  /** Without streams the timer ends. */
  check(): void {
    if (this.#open.size === 0) {
      clearInterval(this.#timer!);
      this.#timer = null;
    }
    for (const watched of this.#open) measure(watched);
    for (const [queue, streams] of Map.groupBy(this.#open, (watched) => watched.queue)) {
      const ending = streams.filter(({ isBroken }) => isBroken).length;
      const slow = streams.filter((watched) => !watched.isBroken && isSlow(watched));
      for (let missing = queue.waitingStreams - ending; missing > 0 && slow.length > 0; missing--)
        this.#break(slow.splice(slowestOf(slow), 1)[0]!);
    }
  }

  #break(watched: Watched): void {
    watched.isBroken = true;
    this.#options.onLimit?.("slow_stream");
    this.#options.log.info(
      { client: watched.network, sent: bytesOf(watched) },
      "a stream was broken off, because its client read it slowly while others waited for a connection",
    );
    watched.response.destroy();
  }
}

function measure({ response, sent }: Watched): void {
  const progress = response.socket && progressOf(response.socket);
  if (!progress?.unsent) sent.length = 0;
  else if (sent.push(progress.sent) > CHECKS + 1) sent.shift();
}

const isSlow = (watched: Watched) => watched.sent.length > CHECKS && bytesOf(watched) < MIN_BYTES;

/** The bytes of the measured time. */
const bytesOf = ({ sent }: Watched) => sent.at(-1)! - sent[0]!;

/** The index of the slowest stream of the network with the most. */
function slowestOf(streams: readonly Watched[]): number {
  const byNetwork = Map.groupBy(streams, ({ network }) => network);
  const [most] = [...byNetwork.values()].sort((a, b) => b.length - a.length);
  const [slowest] = most!.toSorted((a, b) => bytesOf(a) - bytesOf(b));
  return streams.indexOf(slowest!);
}

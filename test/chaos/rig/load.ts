import { setTimeout as sleep } from "node:timers/promises";
import { RATE_LIMIT } from "../../rig/rig.ts";
import { type Writing, writerOf } from "../writers.ts";
import { headersOf, type Requests } from "./requests.ts";

/** Something that goes on until it is stopped. */
export type Load = { stop(): Promise<unknown> };

export function repeat(run: () => Promise<unknown>, pause: number): Load {
  let isStopped = false;
  const finished = (async () => {
    while (!isStopped) {
      await run();
      await sleep(pause);
    }
  })();
  return {
    stop() {
      isStopped = true;
      return finished;
    },
  };
}

/** Readers and writers are other users. */
const READERS = 1000;

/** Inserts a row, and reads it at whatever instance HAProxy chooses: as another user with its position, and as the same without. */
export function openReadWriting(
  requests: Requests,
  acknowledged: Set<number>,
  report: (violation: string) => void,
): Promise<Writing> {
  const write = async (id: number) => {
    const writer = headersOf(100 + writerOf(id));
    const written = await requests.send("/rest/v1/events", { method: "POST", headers: writer, body: { id } });
    if (written === null) throw new Error("it may have been written or not");
    acknowledged.add(id);
    if (written.position === null) return report(`the write of ${id} has no Change-Position`);
    const path = `/rest/v1/events?id=eq.${id}`;
    const position = { "change-position": written.position };
    const reads = {
      "with the position": { ...headersOf(READERS + writerOf(id)), ...position },
      "by the same caller": writer,
    };
    for (const [how, headers] of Object.entries(reads)) {
      const read = await requests.send(path, { headers });
      if (read !== null && read.json.length === 0) report(`stale read ${how}: row ${id} is missing`);
    }
  };
  return Promise.resolve({ write, close: async () => {} });
}

const SIGNED_IN = "/auth/v1/token?grant_type";
/** Signs in, uses the token, refreshes it, uses that, and signs out: the token must then be refused. `revokedWithin`: in so many milliseconds by all. */
export async function signIn(
  requests: Requests,
  revokedWithin: number,
  report: (violation: string) => void,
): Promise<boolean> {
  const post = (path: string, body: unknown, headers = {}) => requests.send(path, { method: "POST", body, headers });
  const credentials = { email: "ada@example.com", password: "Correct-Horse-7!" };
  const use = (token: string, accepted: readonly number[] = []) =>
    requests.send("/auth/v1/user", { headers: { authorization: `Bearer ${token}` }, accepted });
  const first = await post(`${SIGNED_IN}=password`, credentials);
  if (first === null) return false;
  await use(first.json.access_token);
  const next = await post(`${SIGNED_IN}=refresh_token`, { refresh_token: first.json.refresh_token });
  if (next === null) return false;
  const token: string = next.json.access_token;
  await use(token);
  const ended = await post("/auth/v1/logout?scope=local", {}, { authorization: `Bearer ${token}` });
  if (ended === null) return true;
  const end = performance.now();
  for (let refusals = 0; refusals < 3; ) {
    const answer = await use(token, [401, 403]);
    if (answer === null) break;
    refusals = answer.status === 200 ? 0 : refusals + 1;
    if (answer.status === 200 && performance.now() - end > revokedWithin) {
      report(`a token was accepted ${revokedWithin} ms after its session had ended`);
      break;
    }
  }
  return true;
}

const RATE = RATE_LIMIT / 60;
/** Seconds. */
const AVERAGED = 3;

/** A user who sends more requests than the rate limit allows. */
export class GreedyUser implements Load {
  /** Requests that were granted, in each second since the first refusal. */
  readonly #granted: number[] = [];
  #start: number | null = null;
  readonly #loads: readonly Load[];

  constructor(requests: Requests) {
    const headers = headersOf(10);
    const run = async () => {
      const answer = await requests.send("/rest/v1/events?limit=0", { headers, accepted: [429] });
      if (answer?.status === 429) this.#start ??= performance.now();
      if (answer?.status !== 200 || this.#start === null) return;
      const second = Math.floor((performance.now() - this.#start) / 1000);
      this.#granted[second] = (this.#granted[second] ?? 0) + 1;
    };
    this.#loads = Array.from({ length: 6 }, () => repeat(run, 30));
  }

  get isLimited(): boolean {
    return this.#start !== null;
  }

  /** The most seconds in a row in which more than twice the limit was granted, and what was granted of what the limit allows. */
  get figures(): { readonly doubled: number; readonly share: number } {
    const seconds = Array.from(this.#granted, (count = 0) => count);
    const averageAt = (at: number) => sum(seconds.slice(Math.max(0, at - AVERAGED + 1), at + 1)) / AVERAGED;
    let [longest, run] = [0, 0];
    for (const at of seconds.keys()) {
      run = averageAt(at) > 2 * RATE ? run + 1 : 0;
      longest = Math.max(longest, run);
    }
    return { doubled: longest, share: sum(seconds) / Math.max(1, seconds.length * RATE) };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#loads.map((load) => load.stop()));
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0);

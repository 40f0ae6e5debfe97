import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { openSubscribers } from "../realtime/subscribers.ts";
import { type Row, Writers } from "../realtime/writers.ts";
import type { BenchOptions } from "../rounds.ts";
import { type Instances, readRows } from "./instances.ts";
import { measureUsage, type Usage } from "./usage.ts";

const READS = "reads";
const CHANGES = "changes";
const WRITERS = "writers";
export const COST_CASES: readonly string[] = [READS, CHANGES, WRITERS];

const TABLE = "scale";
export const SCALE_SCHEMA = `
  create table public.${TABLE} (id bigint primary key, owner bigint not null, team bigint not null, body text not null);
  alter table public.${TABLE} enable row level security;
  grant select on public.${TABLE} to authenticated;
  create policy "owners" on public.${TABLE} for select using (owner = (select auth.uid()));`;

/** The one user who subscribes, at each instance. */
const SUBSCRIBER = 1;
/** Owners of the rows of writers at full speed. */
export const OWNERS = 1000;
/** Reads per second at each instance. */
export const READ_RATE = 150;
/** Seconds in which V8 compiles code, */
const WARM_UP_SECONDS = 10;
/** and of load before each measurement. */
const SETTLE_SECONDS = 1;
/** Changes per second, */
export const CHANGE_RATE = 50;
/** and rows of writers when they do not write as fast as they can. */
export const ROW_RATE = 500;
const WARM_UP_CHANGES = 150;
/** Milliseconds after which a change counts as lost. */
const PATIENCE = 60_000;

/** The numbers of instances take turns, so many times with Valkey or Redis. */
const ROUNDS = 3;

/** `seconds` is the time for each change. */
export type Changes = Usage & { readonly lost: number; readonly seconds: number };
/** CPU for each row. */
export type Writing = { readonly rowsPerSecond: number; readonly cpu: Usage };

/** What has been measured with a number of instances, round by round. CPU for each read, change and row. */
export type CostSeries = {
  readonly processes: number;
  readonly isShared: boolean;
  readonly reads: Usage[];
  /** CPU for each second with a subscriber at each instance and without changes. */
  readonly idle: Usage[];
  readonly changes: Changes[];
  /** CPU for each row at ROW_RATE. */
  readonly rows: Usage[];
  readonly writers: Writing[];
  /** Streams in pg_stat_replication. */
  readonly senders: number[];
};

export type Costs = {
  readonly series: readonly CostSeries[];
  /** Without a subscriber. */
  readonly unread: readonly Writing[];
};

export async function measureCosts(instances: Instances, options: BenchOptions): Promise<Costs> {
  const isWanted = (name: string) => options.cases?.includes(name) ?? true;
  const isShared = instances.redis !== null;
  const series = options.connections.map(
    (processes): CostSeries => ({
      processes,
      isShared,
      reads: [],
      idle: [],
      changes: [],
      rows: [],
      writers: [],
      senders: [],
    }),
  );
  if (isWanted(READS) && isShared) await measureReads(instances, series, options);
  if (!isWanted(CHANGES) && !isWanted(WRITERS)) return { series, unread: [] };
  await using feed = await Feed.open(instances, options);
  const unread: Writing[] = [];
  for (let round = 0; isWanted(WRITERS) && round < ROUNDS; round++) unread.push(await feed.writeFast());
  // Without Valkey or Redis, an instance that has had subscribers reads on for minutes, so that only more of them can follow.
  const turns = isShared ? turnsOf(series) : [series];
  for (const turn of turns) {
    for (const each of turn) {
      options.signal.throwIfAborted();
      await feed.use(each.processes);
      if (isWanted(CHANGES)) {
        each.idle.push(await feed.measureIdle());
        each.changes.push(await feed.measureChanges());
      }
      if (isWanted(WRITERS)) {
        each.rows.push(await feed.measureRows());
        each.writers.push(await feed.measureWriters());
      }
      each.senders.push(await feed.countSenders());
      options.progress(`${each.processes} processes, ${isShared ? "with Valkey" : "without"}: ${textOf(each)}`);
    }
  }
  return { series, unread };
}

/** The order is reversed with each turn, so that it does not influence the result. */
const turnsOf = (series: readonly CostSeries[]): (readonly CostSeries[])[] =>
  Array.from({ length: ROUNDS }, (_, i) => (i % 2 === 0 ? series : series.toReversed()));

const textOf = ({ idle, changes, rows, writers, senders }: CostSeries) =>
  JSON.stringify({
    ...{ idle: idle.at(-1), changes: changes.at(-1), rows: rows.at(-1) },
    ...{ writers: writers.at(-1), senders: senders.at(-1) },
  });

async function measureReads(instances: Instances, series: readonly CostSeries[], options: BenchOptions): Promise<void> {
  const { seconds, signal, progress } = options;
  const most = Math.max(...options.connections);
  const warmUp = { rate: READ_RATE, seconds: WARM_UP_SECONDS, settleSeconds: 0 };
  await Promise.all(instances.first(most).map((each) => readRows(each, warmUp, signal)));
  for (const turn of turnsOf(series)) {
    for (const { processes, reads } of turn) {
      signal.throwIfAborted();
      const servers = await instances.only(processes);
      const load = { rate: READ_RATE, seconds: seconds + SETTLE_SECONDS, settleSeconds: SETTLE_SECONDS };
      const results = Promise.all(servers.map((each) => readRows(each, load, signal)));
      await Promise.race([sleep(2 * SETTLE_SECONDS * 1000, null, { signal }), results]);
      const start = performance.now();
      const used = measureUsage(servers, instances);
      await Promise.race([sleep(seconds * 1000, null, { signal }), results]);
      const elapsed = (performance.now() - start) / 1000;
      const total = used(1);
      const answers = await results;
      const unexpected = answers.find((each) => each.unexpected !== null);
      if (unexpected) throw new Error(`an instance has answered ${unexpected.unexpected}`);
      const rate = answers.reduce((sum, { admittedPerSecond }) => sum + admittedPerSecond, 0);
      if (rate < 0.95 * processes * READ_RATE) progress(`only ${rate.toFixed(0)} reads per second were answered`);
      const each = (figure: number) => figure / (rate * elapsed);
      reads.push({
        service: each(total.service),
        senders: each(total.senders),
        backends: each(total.backends),
        redis: total.redis === null ? null : each(total.redis),
      });
      await instances.resume();
      progress(`${processes} processes: ${JSON.stringify(reads.at(-1))}`);
    }
  }
}

let lastId = 0;
const nextOwned = (): Row => ({ id: ++lastId, owner: SUBSCRIBER, team: 0 });
const nextOfMany = (): Row => ({ id: ++lastId, owner: 1 + (lastId % OWNERS), team: 0 });

const MAX_ATTEMPTS = 5;

/** A process that has much to read before asks to try again. */
async function subscribe(address: string, onArrival: (id: number) => void): Promise<Disposable> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await openSubscribers(address, TABLE, [SUBSCRIBER], { onArrival });
    } catch (error) {
      if (attempt === MAX_ATTEMPTS || !(error as Error).message.includes("try again")) throw error;
    }
  }
}

/** Writers, and subscribers at the instances that are measured. */
class Feed implements AsyncDisposable {
  readonly #instances: Instances;
  readonly #seconds: number;
  readonly #writers: Writers;
  readonly #owner: pg.Client;
  readonly #subscribers: Disposable[] = [];
  /** The rows that the subscriber of each instance has received. */
  readonly #arrived: Set<number>[] = [];
  #processes = 0;

  private constructor(instances: Instances, seconds: number, writers: Writers, owner: pg.Client) {
    this.#instances = instances;
    this.#seconds = seconds;
    this.#writers = writers;
    this.#owner = owner;
  }

  static async open(instances: Instances, { seconds }: BenchOptions): Promise<Feed> {
    const { ownerUrl } = instances.database;
    const owner = new pg.Client({ connectionString: ownerUrl });
    await owner.connect();
    await owner.query(`truncate public.${TABLE}`);
    const feed = new Feed(instances, seconds, await Writers.connect(ownerUrl, TABLE), owner);
    // The first rows of a table are more expensive than those that follow.
    await feed.writeFast();
    return feed;
  }

  /** Only the first instances run from now on, each with a subscriber. */
  async use(processes: number): Promise<void> {
    this.#processes = processes;
    await this.#instances.resume();
    for (const { address } of this.#instances.first(processes).slice(this.#subscribers.length)) {
      const arrived = new Set<number>();
      this.#arrived.push(arrived);
      const onArrival = (id: number) => void arrived.add(id);
      this.#subscribers.push(await subscribe(address, onArrival));
    }
    // An instance that has started reads what was written before.
    const rows = await this.#write(WARM_UP_CHANGES / CHANGE_RATE);
    for (const arrived of this.#arrived)
      if ((await this.#missing(rows, [arrived])) > 0) throw new Error("an instance does not receive changes");
    // Without Valkey or Redis, the others do not follow the log.
    if (this.#instances.redis) await this.#instances.only(processes);
  }

  /** CPU for each second. */
  async measureIdle(): Promise<Usage> {
    const used = measureUsage(this.#instances.first(this.#processes), this.#instances);
    await sleep(this.#seconds * 1000);
    return used(this.#seconds);
  }

  async measureChanges(): Promise<Changes> {
    const used = measureUsage(this.#instances.first(this.#processes), this.#instances);
    const start = performance.now();
    const rows = await this.#write(this.#seconds);
    const lost = await this.#missing(rows, this.#arrived.slice(0, this.#processes));
    return { lost, seconds: (performance.now() - start) / 1000 / rows.length, ...used(rows.length) };
  }

  /** At a rate at which all numbers of processes have cores left. */
  async measureRows(): Promise<Usage> {
    const used = measureUsage(this.#instances.first(this.#processes), this.#instances);
    await this.#writers.atRate(ROW_RATE, this.#seconds, nextOfMany);
    const cpu = used(ROW_RATE * this.#seconds);
    await this.#catchUp();
    return cpu;
  }

  async measureWriters(): Promise<Writing> {
    const written = await this.writeFast();
    await this.#catchUp();
    return written;
  }

  /** The next measurement begins when all have received what was written. */
  async #catchUp(): Promise<void> {
    await this.#missing(await this.#write(1 / CHANGE_RATE), this.#arrived.slice(0, this.#processes));
  }

  async writeFast(): Promise<Writing> {
    const used = measureUsage(this.#instances.first(this.#processes), this.#instances);
    const start = performance.now();
    const rows = await this.#writers.atFullSpeed({ seconds: this.#seconds / 2 }, nextOfMany);
    return { rowsPerSecond: (1000 * rows) / (performance.now() - start), cpu: used(rows) };
  }

  async countSenders(): Promise<number> {
    const { rows } = await this.#owner.query(
      "select count(*)::int as senders from pg_stat_replication where state = 'streaming'",
    );
    return rows[0].senders;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of this.#subscribers) each[Symbol.dispose]();
    await Promise.all([this.#writers[Symbol.asyncDispose](), this.#owner.end(), this.#instances.resume()]);
  }

  /** Inserts rows that the subscribers get. Returns their ids. */
  async #write(seconds: number): Promise<readonly number[]> {
    const first = lastId + 1;
    await this.#writers.atRate(CHANGE_RATE, seconds, nextOwned);
    return Array.from({ length: lastId + 1 - first }, (_, i) => first + i);
  }

  /** The number of rows that some do not receive. */
  async #missing(rows: readonly number[], by: readonly Set<number>[]): Promise<number> {
    const missing = () => by.reduce((sum, arrived) => sum + rows.filter((id) => !arrived.has(id)).length, 0);
    for (let waited = 0; missing() > 0 && waited < PATIENCE; waited += 10) await sleep(10);
    const lost = missing();
    for (const arrived of by) arrived.clear();
    return lost;
  }
}

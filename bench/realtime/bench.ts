import { setTimeout as sleep } from "node:timers/promises";
import { type BenchDatabase, createDatabase } from "../database.ts";
import { atLeast, atMost, type Goal, goalsTable, spread } from "../figures.ts";
import { memoryOf, ownCpuOf } from "../process-usage.ts";
import { heading, list, table } from "../report.ts";
import type { Bench, BenchOptions } from "../rounds.ts";
import { ourCommand, type Program, startServer } from "../servers.ts";
import { startBareReader } from "./bare-reader.ts";
import { MEMBERS, measurePresence, type PresenceSample, presenceGoals, presenceReport } from "./presence.ts";
import { openSubscribers } from "./subscribers.ts";
import { type Row, Writers } from "./writers.ts";

const NO_LIMIT = "1000000";
const PROGRAM: Program = {
  name: "ours",
  about: "server.ts as `npm start` runs it, with higher limits for one IP address",
  base: "",
  command: (database, port) =>
    ourCommand(database, port, { INSTANCE_ID: "bench", MAX_CONNECTIONS: NO_LIMIT, CLIENT_MEMORY: "0" }),
};

const TEAM = 10;

/** Who sees a row. `deliveries` is the number of subscribers that get a change, of the users from 1 to `count`. */
type Case = {
  readonly name: string;
  readonly about: string;
  deliveries(count: number, row: Pick<Row, "team">): number;
};

const CASES: readonly Case[] = [
  {
    name: "owner",
    about: "`using (owner = (select auth.uid()))`: one subscriber gets each change",
    deliveries: () => 1,
  },
  {
    name: "membership",
    about: `\`using (exists (select from members …))\`, teams of ${TEAM}: ${TEAM} subscribers get each change`,
    deliveries: (count, { team }) => Math.min(TEAM, count - (team - 1) * TEAM),
  },
  {
    name: "together",
    about: "the same, all in one team: every subscriber gets each change",
    deliveries: (count) => count,
  },
];

/** Each user is in team 0, in which all are, and in a team of ten: user 1 to 10 in team 1. */
const SCHEMA = `
  create table public.members (team bigint, user_id bigint, primary key (team, user_id));
  ${CASES.map(
    ({ name }) => `
  create table public.${name} (id bigint primary key, owner bigint not null, team bigint not null, body text not null);
  alter table public.${name} enable row level security;
  grant select on public.${name} to authenticated;
  create policy "who may" on public.${name} for select using (${
    name === "owner"
      ? "owner = (select auth.uid())"
      : `exists (select from public.members m where m.team = ${name}.team and m.user_id = (select auth.uid()))`
  });`,
  ).join("")}
  alter table public.members enable row level security;
  grant select on public.members to authenticated;
  create policy "members" on public.members for select using (true);
  insert into public.members select team, n from generate_series(1, 10000) as n, lateral (values (0), (1 + (n - 1) / ${TEAM})) as t (team);`;

/** One measurement of a case with a number of subscribers. Times are milliseconds, CPU is microseconds for each delivery. */
type Sample = {
  readonly p50: number;
  readonly p95: number;
  readonly lost: number;
  readonly cpu: number;
  /** Changes per second when all are written at once. */
  readonly fullSpeed: number;
};
type Measured = { readonly case: Case; readonly subscribers: number; readonly samples: Sample[] };

/** Rows per second without a subscriber, with a process that only reads the stream of changes, and with a subscriber. */
type WriterSample = { readonly without: number; readonly bare: number; readonly with: number };
type Measurements = {
  readonly databaseVersion: string;
  readonly measured: readonly Measured[];
  /** Milliseconds at one subscriber and few changes. */
  readonly idle: number[];
  /** kB for each idle socket. */
  readonly socket: number | null;
  readonly writers: readonly WriterSample[];
  readonly presences: readonly PresenceSample[];
};

export const REALTIME: Bench = {
  name: "realtime",
  about:
    "Measures channels: changes/s, time from commit to client, CPU for each delivery, memory for each socket, cost to writers.",
  cases: [...CASES.map(({ name }) => name), "memory", "writers", "presence"],
  run: async (options, command) => report(await measureAll(options), options, command),
};

/** Changes per second that the goals name for a number of subscribers, and at most so many deliveries. */
function rateOf(each: Case, subscribers: number): number {
  const rate = subscribers <= 500 ? 300 : subscribers <= 1000 ? 150 : 50;
  return Math.min(rate, Math.floor(MAX_DELIVERIES / mostDeliveries(each, subscribers)));
}

/** Of one change. */
const mostDeliveries = (each: Case, subscribers: number) => each.deliveries(subscribers, { team: 1 });

/** For each second: what Supabase documents for 500 subscribers with policies, 40 changes for each. */
const MAX_DELIVERIES = 20_000;

const IDLE_RATE = 20;
const IDLE_SOCKETS = 10_000;

async function measureAll(options: BenchOptions): Promise<Measurements> {
  const { connections, rounds, cases, progress } = options;
  const isWanted = (name: string) => cases?.includes(name) ?? true;
  progress("creating the database");
  await using database = await createDatabase(SCHEMA);
  const measured = CASES.filter(({ name }) => isWanted(name)).flatMap((each) =>
    connections.map((subscribers): Measured => ({ case: each, subscribers, samples: [] })),
  );
  const idle: number[] = [];
  const writers: WriterSample[] = [];
  const presences: PresenceSample[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const each of measured) {
      options.signal.throwIfAborted();
      each.samples.push(await measure(each, database, options));
      progress(`round ${round}/${rounds}, ${each.case.name} at ${each.subscribers}: ${textOf(each.samples.at(-1)!)}`);
    }
    if (isWanted("owner")) idle.push(await measureIdle(database, options));
    if (isWanted("writers")) {
      writers.push(await measureWriters(database, options));
      progress(`round ${round}/${rounds}, rows/s: ${JSON.stringify(writers.at(-1))}`);
    }
    for (const members of isWanted("presence") ? MEMBERS : []) {
      options.signal.throwIfAborted();
      presences.push(await measurePresence(PROGRAM, database, members));
      progress(`round ${round}/${rounds}, presence: ${JSON.stringify(presences.at(-1))}`);
    }
  }
  const socket = isWanted("memory") ? await measureMemory(database, options) : null;
  return { databaseVersion: database.version, measured, idle, socket, writers, presences };
}

let lastId = 0;

/** Rows for the users from 1 to `count`, in turn. */
const rowsFor = (each: Case, count: number) => (): Row => {
  const id = ++lastId;
  const owner = 1 + (id % count);
  return { id, owner, team: each.name === "together" ? 0 : 1 + Math.floor((owner - 1) / TEAM) };
};

/** Counts what arrives, and measures the time since its insert began. */
class Meter {
  readonly times: number[] = [];
  expected = 0;
  arrived = 0;
  readonly #begun = new Map<number, number>();

  onArrival = (id: number): void => {
    this.arrived++;
    this.times.push(performance.now() - this.#begun.get(id)!);
  };

  begin(row: Row): Row {
    this.#begun.set(row.id, performance.now());
    return row;
  }

  percentile(share: number): number {
    const sorted = Float64Array.from(this.times).sort();
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  }

  /** Resolves when all have arrived, or nothing more arrives. */
  async complete(): Promise<void> {
    for (let last = -1; this.arrived < this.expected && this.arrived !== last; ) {
      last = this.arrived;
      for (let waited = 0; waited < PATIENCE && this.arrived < this.expected; waited += 10) await sleep(10);
    }
  }
}

/** Milliseconds. */
const PATIENCE = 5000;
/** Deliveries of a burst. */
const BURST = 60_000;

async function measure(
  { case: each, subscribers }: Measured,
  database: BenchDatabase,
  options: BenchOptions,
): Promise<Sample> {
  await using server = await startServer(PROGRAM, database);
  await using writers = await Writers.connect(database.ownerUrl, each.name);
  const meter = { current: new Meter() };
  const users = Array.from({ length: subscribers }, (_, i) => i + 1);
  using _open = await openSubscribers(server.address, each.name, users, {
    onArrival: (id) => meter.current.onArrival(id),
  });
  const next = rowsFor(each, subscribers);

  const load = async (write: (next: () => Row) => Promise<unknown>) => {
    const own = new Meter();
    meter.current = own;
    await write(() => {
      const row = next();
      own.expected += each.deliveries(subscribers, row);
      return own.begin(row);
    });
    await own.complete();
    return own;
  };
  const rate = rateOf(each, subscribers);
  await load((row) => writers.atRate(Math.min(rate, 50), 2, row));

  const cpuBefore = ownCpuOf(server.pid);
  const steady = await load((row) => writers.atRate(rate, options.seconds, row));
  const cpu = (ownCpuOf(server.pid) - cpuBefore) / steady.arrived;

  const count = Math.max(50, Math.min(3000, Math.round(BURST / mostDeliveries(each, subscribers))));
  const start = performance.now();
  const burst = await load((row) => writers.atFullSpeed({ count }, row));
  const fullSpeed = (1000 * count * burst.arrived) / burst.expected / (performance.now() - start);
  const lost = steady.expected - steady.arrived + (burst.expected - burst.arrived);
  return { p50: steady.percentile(0.5), p95: steady.percentile(0.95), lost, cpu, fullSpeed };
}

async function measureIdle(database: BenchDatabase, { seconds }: BenchOptions): Promise<number> {
  await using server = await startServer(PROGRAM, database);
  await using writers = await Writers.connect(database.ownerUrl, "owner");
  const meter = new Meter();
  using _open = await openSubscribers(server.address, "owner", [1], meter);
  const next = rowsFor(CASES[0]!, 1);
  await catchUp(writers, meter);
  meter.times.length = 0;
  meter.expected += IDLE_RATE * seconds;
  await writers.atRate(IDLE_RATE, seconds, () => meter.begin(next()));
  await meter.complete();
  return meter.percentile(0.5);
}

/** A service that has started reads the last minute again, so that positions of before are valid. */
async function catchUp(writers: Writers, meter: Meter): Promise<void> {
  meter.expected = 1;
  await writers.atRate(1, 1, () => meter.begin(rowsFor(CASES[0]!, 1)()));
  await meter.complete();
}

async function measureMemory(database: BenchDatabase, { progress }: BenchOptions): Promise<number> {
  await using server = await startServer(PROGRAM, database);
  const nothing = { onArrival() {} };
  using _first = await openSubscribers(server.address, "owner", [1], nothing);
  const before = memoryOf(server.pid);
  // With the first one, as many as MAX_CONNECTIONS allows for one IP address.
  const users = Array.from({ length: IDLE_SOCKETS - 1 }, (_, i) => 1 + (i % 10_000));
  using _open = await openSubscribers(server.address, "owner", users, nothing);
  // Garbage of the joins is collected meanwhile.
  await sleep(10_000);
  const perSocket = ((memoryOf(server.pid) - before) * 1000) / users.length;
  progress(`${perSocket.toFixed(1)} kB for each of ${IDLE_SOCKETS} sockets`);
  return perSocket;
}

/** The same writers on one server. */
async function measureWriters(database: BenchDatabase, { seconds }: BenchOptions): Promise<WriterSample> {
  await using server = await startServer(PROGRAM, database);
  await using writers = await Writers.connect(database.ownerUrl, "owner");
  const next = rowsFor(CASES[0]!, 1000);
  const rowsPerSecond = async () => (await writers.atFullSpeed({ seconds }, next)) / seconds;
  await rowsPerSecond();
  const without = await rowsPerSecond();
  const reader = await startBareReader(database.ownerUrl);
  const bare = await rowsPerSecond();
  await reader[Symbol.asyncDispose]();
  const meter = new Meter();
  using _open = await openSubscribers(server.address, "owner", [1], meter);
  await catchUp(writers, meter);
  // The rows that follow are not timed.
  meter.onArrival = () => {};
  return { without, bare, with: await rowsPerSecond() };
}

const textOf = ({ p50, p95, lost, cpu, fullSpeed }: Sample) =>
  `p50 ${p50.toFixed(1)}, p95 ${p95.toFixed(1)} ms, ${lost} lost, ${cpu.toFixed(0)} µs, ${fullSpeed.toFixed(0)} changes/s`;

/** Formats the measurements as Markdown. */
function report(
  { databaseVersion, measured, idle, socket, writers, presences }: Measurements,
  options: BenchOptions,
  command: string,
): string {
  const more: Goal[] = [
    { name: "p50 ms, one subscriber, few changes", aim: atMost(10, 1), values: idle },
    {
      name: `kB for each of ${IDLE_SOCKETS} idle sockets`,
      aim: atMost(40, 1),
      values: socket === null ? [] : [socket],
    },
    {
      name: "rows/s of 8 writers with a subscriber to without",
      aim: atLeast(0.8),
      values: writers.map((sample) => sample.with / sample.without),
    },
    {
      name: "the same, to a process that reads the changes and discards them",
      aim: atLeast(0.8),
      values: writers.map((sample) => sample.with / sample.bare),
    },
  ];
  return [
    heading("Realtime", command, databaseVersion),
    list([PROGRAM]),
    list(CASES),
    "Each subscriber is another user with a WebSocket and a channel, as supabase-js opens it. Eight connections insert rows of 250 bytes, " +
      "each in a transaction, at the rate in the table. Times are from the beginning of the insert to the arrival at the client. Then as many " +
      "rows as possible are written: full speed is the number of changes per second that have arrived, with the rights checked. CPU: of " +
      "the service, in microseconds for each delivery at the rate in the table. Lost: what has not arrived. The clients, the writers, the " +
      `service and Postgres share the cores. Rounds: ${options.rounds}, ${options.seconds} s; each measurement has a new process.`,
    "### Goals",
    "A goal is reached if the median of the rounds reaches it.",
    goalsTable([...measured.flatMap(goalsOf), ...more, ...presenceGoals(presences)]),
    "### All numbers",
    "Medians (minimum–maximum).",
    table(
      ["policy", "subscribers", "changes/s", "deliveries/s", "p50 ms", "p95 ms", "CPU", "full speed", "lost"],
      measured.map(rowOf),
    ),
    `Rows/s of 8 writers: ${spreadOf(writers, "without")} without a subscriber, ${spreadOf(writers, "bare")} while a process reads ` +
      `the changes and discards them, ${spreadOf(writers, "with")} with a subscriber.`,
    ...presenceReport(presences),
  ].join("\n\n");
}

const spreadOf = (samples: readonly WriterSample[], figure: keyof WriterSample) =>
  spread(
    samples.map((sample) => sample[figure]),
    0,
  );

const MAX_P95 = 250;

function goalsOf({ case: each, subscribers, samples }: Measured): Goal[] {
  const { name } = each;
  const rate = rateOf(each, subscribers);
  return [
    {
      name: `p95 ms at ${rate} changes/s, ${name} at ${subscribers}`,
      aim: atMost(MAX_P95),
      values: samples.map(({ p95 }) => p95),
    },
    { name: `lost, ${name} at ${subscribers}`, aim: atMost(0), values: samples.map(({ lost }) => lost) },
  ];
}

function rowOf({ case: each, subscribers, samples }: Measured): string[] {
  const of = (figure: keyof Sample, digits: number) =>
    spread(
      samples.map((sample) => sample[figure]),
      digits,
    );
  const rate = rateOf(each, subscribers);
  return [
    each.name,
    String(subscribers),
    String(rate),
    String(rate * mostDeliveries(each, subscribers)),
    of("p50", 1),
    of("p95", 1),
    of("cpu", 0),
    of("fullSpeed", 0),
    of("lost", 0),
  ];
}

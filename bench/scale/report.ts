import { atMost, type Goal, spread } from "../figures.ts";
import { table } from "../report.ts";
import type { BenchOptions } from "../rounds.ts";
import { CHANGE_RATE, type CostSeries, type Costs, OWNERS, READ_RATE, ROW_RATE } from "./costs.ts";
import type { Usage } from "./usage.ts";

const RATIO = 1.25;
/** One percent of a core. */
const MAX_IDLE = 10_000;

const databaseOf = ({ senders, backends }: Usage) => senders + backends;

/** CPU of the changes beyond that of the same processes when idle: the least, because they may still do what was left to do. */
function changesOf({ idle, changes }: CostSeries): readonly Usage[] {
  const least = (of: "service" | "senders" | "backends" | "redis") => Math.min(...idle.map((usage) => usage[of] ?? 0));
  return changes.map(({ service, senders, backends, redis, seconds }) => ({
    service: service - least("service") * seconds,
    senders: senders - least("senders") * seconds,
    backends: backends - least("backends") * seconds,
    redis: redis && redis - least("redis") * seconds,
  }));
}

export function costGoals(all: readonly Costs[]): Goal[] {
  const series = all.flatMap((each) => each.series);
  const shared = series.filter(({ isShared }) => isShared).toSorted((a, b) => a.processes - b.processes);
  const [least, most] = [shared[0], shared.at(-1)];
  // For each round, the figure with the most instances divided by that with the fewest.
  const goal = (name: string, figuresOf: (series: CostSeries) => readonly number[]): Goal => {
    const [before, after] = [least ? figuresOf(least) : [], most ? figuresOf(most) : []];
    const values = least === most ? [] : after.map((value, i) => value / before[i]!);
    return { name: `${name}, ${most?.processes} processes to ${least?.processes}`, aim: atMost(RATIO, 2), values };
  };
  const lost = series.flatMap(({ changes }) => changes.map((each) => each.lost));
  return [
    goal("CPU of the service for each read", ({ reads }) => reads.map(({ service }) => service)),
    goal("CPU of PostgreSQL for each read", ({ reads }) => reads.map(databaseOf)),
    goal("CPU of the service for each change and process", (each) =>
      changesOf(each).map(({ service }) => service / each.processes),
    ),
    goal("CPU of PostgreSQL for each change", (each) => changesOf(each).map(databaseOf)),
    {
      name: "µs of the service in an idle second, each process",
      aim: atMost(MAX_IDLE),
      values: shared.flatMap(({ idle, processes }) => idle.map(({ service }) => service / processes)),
    },
    goal("CPU of the WAL sender for each change", (each) => changesOf(each).map(({ senders }) => senders)),
    goal(`CPU of PostgreSQL for each of ${ROW_RATE} rows/s`, ({ rows }) => rows.map(databaseOf)),
    { name: "WAL senders", aim: atMost(1), values: shared.flatMap(({ senders }) => senders) },
    {
      name: "changes that a subscriber did not get",
      aim: atMost(0),
      values: lost.length === 0 ? [] : [Math.max(...lost)],
    },
  ];
}

type Section = {
  readonly title: string;
  readonly about: string;
  readonly head: readonly string[];
  /** The figures of the rounds, one list for each column; all are empty if this was not measured. */
  columns(series: CostSeries): readonly (readonly number[])[];
};

const valkeyOf = (usages: readonly Usage[]) => usages.map(({ redis }) => redis).filter((value) => value !== null);

const sectionsOf = (seconds: number): readonly Section[] => [
  {
    title: "### CPU of a read",
    about: `Reads of a row by its key, ${READ_RATE} per second at each process, for ${seconds} s. Microseconds for each read.`,
    head: ["service", "PostgreSQL", "Valkey"],
    columns: ({ reads }) => [reads.map(({ service }) => service), reads.map(databaseOf), valkeyOf(reads)],
  },
  {
    title: "### CPU of an idle process",
    about: "Each process has one subscriber, and nothing changes. Microseconds for each second.",
    head: ["service, by process", "PostgreSQL", "Valkey"],
    columns: ({ idle, processes }) => [
      idle.map(({ service }) => service / processes),
      idle.map(databaseOf),
      valkeyOf(idle),
    ],
  },
  {
    title: "### CPU of a change",
    about:
      `The subscribers get all changes: ${CHANGE_RATE} inserts per second, for ${seconds} s. Microseconds for each change, beyond those of ` +
      "idle processes. The others of PostgreSQL include the insert itself.",
    head: ["service, by process", "WAL senders", "others of PostgreSQL", "Valkey"],
    columns: (series) => {
      const changes = changesOf(series);
      return [
        changes.map(({ service }) => service / series.processes),
        changes.map(({ senders }) => senders),
        changes.map(({ backends }) => backends),
        valkeyOf(changes),
      ];
    },
  },
  {
    title: "### Writers",
    about:
      `Eight connections insert rows of 250 bytes as fast as they can, for ${seconds / 2} s, with one subscriber at each process, who gets one ` +
      `row of ${OWNERS}. The writers, the processes and PostgreSQL share the cores, so the rate falls with the number of processes, and a row ` +
      `costs PostgreSQL more at a lower rate, with 1 process too. So PostgreSQL is also measured at ${ROW_RATE} rows/s, for ` +
      `${seconds} s, which is what a machine of its own would notice. CPU: microseconds for each row.`,
    head: [
      "streams in pg_stat_replication",
      "rows/s",
      "PostgreSQL",
      `PostgreSQL at ${ROW_RATE}/s`,
      "service, by process",
    ],
    columns: ({ rows, writers, processes, senders }) => [
      writers.length === 0 ? [] : senders,
      writers.map(({ rowsPerSecond }) => rowsPerSecond),
      writers.map(({ cpu }) => databaseOf(cpu)),
      rows.map(databaseOf),
      writers.map(({ cpu }) => cpu.service / processes),
    ],
  },
];

export function costReport(all: readonly Costs[], { seconds }: BenchOptions): readonly string[] {
  const series = all.flatMap((each) => each.series);
  const unread = all.flatMap((each) => each.unread);
  const sections = sectionsOf(seconds).flatMap(({ title, about, head, columns }) => {
    const rows = series
      .map((each) => [each, columns(each)] as const)
      .filter(([, figures]) => figures.some(({ length }) => length > 0))
      .map(([{ isShared, processes }, figures]) => [
        ...[isShared ? "yes" : "no", String(processes)],
        ...figures.map((values) => spread(values, 0)),
      ]);
    return rows.length === 0 ? [] : [title, about, table(["Valkey", "processes", ...head], rows)];
  });
  if (unread.length === 0) return sections;
  const rates = unread.map(({ rowsPerSecond }) => rowsPerSecond);
  const cpu = unread.map((each) => databaseOf(each.cpu));
  return [
    ...sections,
    `Without a subscriber: ${spread(rates, 0)} rows/s, ${spread(cpu, 0)} µs of PostgreSQL for each row.`,
  ];
}

export type DisturbanceReport = {
  readonly name: string;
  /** Milliseconds from its begin until everything was repaired. */
  readonly lasted: number;
  /** Milliseconds after that until everybody had everything. */
  readonly recovered: number;
  readonly answered: number;
  /** `503 12, ECONNRESET 3` */
  readonly refused: ReadonlyMap<string, number>;
  /** The most milliseconds until a request was refused. */
  readonly longest: number;
  readonly gaps: number;
  readonly violations: readonly string[];
};

export type RigChaosReport = {
  readonly disturbances: readonly DisturbanceReport[];
  readonly acknowledged: number;
  readonly signIns: number;
  readonly broadcasts: number;
  /** How much of the limit the greedy user got: 1 is all. */
  readonly granted: number;
  /** The most seconds for which the limit was doubled. */
  readonly doubled: number;
  readonly violations: readonly string[];
  /** The folder of the logs, which are kept after a violation. */
  readonly logs: string | null;
};

const seconds = (milliseconds: number) => (milliseconds / 1000).toFixed(1);
const refusalsOf = (refused: ReadonlyMap<string, number>) =>
  [...refused].map(([code, count]) => `${code} ${count}`).join(", ") || "none";

export function lineOf(report: DisturbanceReport): string {
  const { lasted, recovered, answered, refused, longest, gaps, violations } = report;
  const figures = [
    `${seconds(lasted)} s, recovered in ${seconds(recovered)} s`,
    `${answered} answered, refused: ${refusalsOf(refused)}`,
    ...(longest > 0 ? [`after at most ${seconds(longest)} s`] : []),
    ...(gaps > 0 ? [`${gaps} gaps`] : []),
  ];
  return `${figures.join("; ")}\n${violations.map((violation) => `    ${violation}\n`).join("")}`;
}

/** A line for each kind, as in bench/results.md. */
export function tableOf(reports: readonly DisturbanceReport[]): string {
  const kinds = Map.groupBy(reports, ({ name }) => name);
  const rows = [...kinds].map(([name, all]) => {
    const most = (of: (report: DisturbanceReport) => number) => Math.max(...all.map(of));
    const refused = new Map<string, number>();
    for (const report of all)
      for (const [code, count] of report.refused) refused.set(code, (refused.get(code) ?? 0) + count);
    const sum = (of: (report: DisturbanceReport) => number) => all.reduce((total, report) => total + of(report), 0);
    return [
      ...[name, all.length, sum(({ answered }) => answered), refusalsOf(refused)],
      ...[seconds(most(({ longest }) => longest)), seconds(most(({ recovered }) => recovered))],
      ...[sum(({ gaps }) => gaps), sum(({ violations }) => violations.length)],
    ];
  });
  const head = "disturbance,times,answered,refused,longest refusal (s),longest recovery (s),gaps,violations".split(",");
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |\n`).join("");
}

export function summaryOf({
  acknowledged,
  signIns,
  broadcasts,
  granted,
  doubled,
  violations,
  disturbances,
}: RigChaosReport): string {
  const judged = violations.length === 0 ? "no violation" : `${violations.length} VIOLATIONS`;
  return `${disturbances.length} disturbances, ${acknowledged} acknowledged writes, ${signIns} sign-ins, ${broadcasts} broadcasts; the user who
sends too much got ${Math.round(100 * granted)} % of the limit, and at most for ${doubled} s more than twice of it; ${judged}\n`;
}

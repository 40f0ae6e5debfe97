import { createDatabase } from "../database.ts";
import { goalsTable } from "../figures.ts";
import { openRedis } from "../redis.ts";
import { heading } from "../report.ts";
import type { Bench } from "../rounds.ts";
import { COST_CASES, type Costs, measureCosts, SCALE_SCHEMA } from "./costs.ts";
import { HEADROOM, headroomReport, measureHeadroom, type Step } from "./headroom.ts";
import { Instances } from "./instances.ts";
import { measureReach, REACH_CASES, reachGoals, reachReport, type Series } from "./reach.ts";
import { costGoals, costReport } from "./report.ts";

export const SCALE: Bench = {
  name: "scale",
  about:
    "Measures instances of one process on one database: CPU for each read and change, the writers' rate, how soon all know of a change, and CPU and latency of one under a growing load. " +
    "Starts Valkey or Redis if REDIS_URL is not set. --connections are numbers of processes, --rounds how often each change is made.",
  cases: [...COST_CASES, ...REACH_CASES, HEADROOM],
  defaults: { rounds: "10", seconds: "4", connections: "1,2,4,8" },
  async run(options, command) {
    options.progress("creating the database");
    await using stack = new AsyncDisposableStack();
    const redis = await openRedis();
    if (redis) stack.use(redis);
    const database = stack.use(await createDatabase(SCALE_SCHEMA));
    const costs: Costs[] = [];
    const reach: Series[] = [];
    const headroom: Step[] = [];
    for (const shared of redis ? [redis, null] : [null]) {
      options.progress(`starting the processes ${shared ? "with" : "without"} Valkey or Redis`);
      await using instances = await Instances.start(Math.max(...options.connections), database, shared);
      for (const count of shared === redis ? options.connections : [])
        reach.push(...(await measureReach(await instances.only(count), database, redis !== null, options)));
      if (shared === redis) headroom.push(...(await measureHeadroom(instances, options)));
      await instances.resume();
      costs.push(await measureCosts(instances, options));
    }
    return [
      heading("Scale", command, database.version),
      "Instances of one process on one database. The numbers of processes take turns; the processes beyond are stopped (SIGSTOP). CPU is that " +
        "of the processes. Medians (minimum–maximum). Valkey: whether the instances have `REDIS_URL`, and so one change feed for all.",
      "### Goals",
      goalsTable([...costGoals(costs), ...reachGoals(reach)]),
      ...costReport(costs, options),
      ...reachReport(reach),
      ...headroomReport(headroom),
    ].join("\n\n");
  },
};

import pg from "pg";
import { makeSchema } from "postgraphile";
import { makePgService } from "postgraphile/adaptors/pg";
import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { PostGraphileConnectionFilterPreset } from "postgraphile-plugin-connection-filter";
import { buildCatalog } from "../../db/catalog/build.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { buildSchema } from "../../graphql/schema/schema.ts";
import { plugins } from "../../parts/graphql-extras/plugins.ts";

/** What one process builds. */
export type BuildRequest = { readonly databaseUrl: string; readonly schema: "ours" | "stock" };
/** What it prints as JSON. Times in milliseconds; the CPU is that of the process, without Postgres. Memory in MB. */
export type Built = {
  readonly cpu: number;
  readonly milliseconds: number;
  readonly peak: number;
  /** CPU of the longest turn of the event loop. */
  readonly longestTurn: number;
  readonly types: number;
};

/** The schema of the service, with its catalog. */
async function ours(pool: pg.Pool) {
  const scope = { schemas: ["api"], extraSearchPath: [] };
  const catalog = await buildCatalog(await parseCatalog(await readCatalog(pool, scope)), 1);
  return buildSchema({
    catalog: pool,
    schemas: scope.schemas,
    anonymousRole: "anon",
    maxPageSize: 1000,
    plugins,
    nodeIds: false,
    unindexedFilters: "none",
    relations: () => catalog,
    readRelations: async () => {},
  });
}

/** PostGraphile with connection-filter, as their documentation sets them up. */
const stock = (pool: pg.Pool) =>
  makeSchema({
    extends: [PostGraphileAmberPreset, PostGraphileConnectionFilterPreset],
    pgServices: [makePgService({ pool, schemas: ["api"], pubsub: false })],
  });

const { databaseUrl, schema: name }: BuildRequest = JSON.parse(process.argv[2]!);
/** Measures the turns of the event loop until it is called. Returns the milliseconds of CPU of the longest. */
function watchTurns(): () => number {
  const now = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let [longest, last] = [0, now()];
  const take = () => {
    const before = last;
    last = now();
    longest = Math.max(longest, last - before);
    turn = setImmediate(take);
  };
  let turn = setImmediate(take);
  return () => {
    clearImmediate(turn);
    return Math.max(longest, now() - last);
  };
}

const pool = new pg.Pool({ connectionString: databaseUrl });
const [start, usage] = [performance.now(), process.cpuUsage()];
const longestTurn = watchTurns();
const { schema } = await (name === "ours" ? ours(pool) : stock(pool));
const milliseconds = performance.now() - start;
const { user, system } = process.cpuUsage(usage);
await pool.end();
const built: Built = {
  cpu: (user + system) / 1000,
  milliseconds,
  longestTurn: longestTurn(),
  peak: process.resourceUsage().maxRSS / 1000,
  types: Object.keys(schema.getTypeMap()).length,
};
process.stdout.write(JSON.stringify(built));

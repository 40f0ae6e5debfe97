import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { startScratchCluster } from "../cli/scratch-cluster.ts";
import { MODULE_NAMES } from "../config/modules.ts";
import { migrate } from "../db/cluster/migrate.ts";

const ROOT = join(import.meta.dirname, "..");
const TRACE = join(ROOT, "bench/request-trace.ts");
const PAGE = join(ROOT, "bench/roads.md");

/** A request of the demo. `as`: whose credential it has. */
export type Road = {
  readonly request: string;
  readonly as: "anyone" | "Ada";
  readonly method: "GET" | "POST" | "PATCH";
  readonly path: string;
  readonly body: unknown;
};

const road = (as: Road["as"], method: Road["method"], path: string, body: unknown = null): Road => ({
  request: `${method} ${path}${body === null ? "" : ` ${JSON.stringify(body)}`}`,
  ...{ as, method, path, body },
});

/** One of each kind. */
export const ROADS: readonly Road[] = [
  road("anyone", "GET", "/rest/v1/articles?select=title,author:users(name)"),
  road("anyone", "POST", "/graphql", { query: "{ article(id: 1) { title author { name } } }" }),
  road("Ada", "PATCH", "/articles/1", { title: "Notes" }),
];

export type TracedFile = {
  readonly file: string;
  /** The functions with a name, in the order in which they are called first. */
  readonly functions: readonly string[];
};

export type Trace = {
  /** In the order in which the request enters them. */
  readonly files: readonly TracedFile[];
  /** Calls of a function that was not called before, in a file in which no function is running although one has been called. */
  readonly returns: readonly string[];
};

/** Sends the request to a service of its own, until it is warm, and traces it. The database has the demo and its data. */
export async function trace(databaseUrl: string, road: Road): Promise<Trace> {
  const { stdout } = await promisify(execFile)(process.execPath, [TRACE, databaseUrl, JSON.stringify(road)], {
    cwd: ROOT,
  });
  return JSON.parse(stdout);
}

/** What bench/roads.md says of each road. */
const describeRoad = ({ request }: Road, { files }: Trace): string =>
  [
    `## \`${request}\``,
    "",
    `It passes ${files.length} files:`,
    "",
    ...files.map(({ file, functions }, i) => `${i + 1}. \`${file}\`${functionsOf(functions)}`),
    "",
  ].join("\n");

/** Further ones are found from these. */
const MAX_FUNCTIONS = 3;
const functionsOf = (functions: readonly string[]) =>
  functions
    .slice(0, MAX_FUNCTIONS)
    .map((name, i) => `${i === 0 ? ": " : ", "}\`${name}\``)
    .join("");

/** The files that bench/roads.md lists for the road. */
export function listedFiles({ request }: Road): string[] {
  const section = readFileSync(PAGE, "utf8").split(`## \`${request}\`\n`)[1]?.split("\n## ")[0] ?? "";
  return [...section.matchAll(/^\d+\. `([^`]+)`/gm)].map(([, file]) => file!);
}

/** Prints the section of each road, on a new database of the demo. `writes`: writes it into the page. */
export async function printRoads(writes: boolean): Promise<void> {
  const cluster = await startScratchCluster();
  try {
    const url = cluster.url("postgres");
    await migrate(url, () => {}, { folder: "demo/db/migrations", modules: MODULE_NAMES, userId: "bigint" });
    const described: string[] = [];
    for (const each of ROADS) {
      const traced = await trace(url, each);
      described.push(describeRoad(each, traced));
      process.stdout.write(
        `\n${described.at(-1)}${traced.returns.map((place) => `   returns to ${place}\n`).join("")}`,
      );
    }
    const [start] = readFileSync(PAGE, "utf8").split("\n## `");
    if (writes) writeFileSync(PAGE, `${[start, ...described].join("\n").trimEnd()}\n`);
  } finally {
    await cluster.remove();
  }
}

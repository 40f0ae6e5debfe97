import { execFileSync } from "node:child_process";
import { MODULE_NAMES } from "../config/modules.ts";
import { startScratchCluster } from "../db/cluster/embedded.ts";
import { migrate } from "../db/cluster/migrate.ts";

/** Path, and the body of a POST. */
const ROADS: Readonly<Record<string, readonly string[]>> = {
  table: ["/rest/v1/articles?select=title,author:users(name)"],
  GraphQL: [
    "/graphql",
    JSON.stringify({ query: "{ articles(first: 10) { edges { node { title author { name } } } } }" }),
  ],
  resource: ["/articles?limit=10"],
};

const TRACE = `${import.meta.dirname}/request-trace.ts`;

/** Prints the files of each road, on a new database of the demo. */
export async function printRoads(): Promise<void> {
  const cluster = await startScratchCluster();
  try {
    const url = cluster.url("postgres");
    await migrate(url, () => {}, { folder: "demo/db/migrations", modules: MODULE_NAMES, userId: "bigint" });
    for (const [name, request] of Object.entries(ROADS)) {
      const trace = execFileSync(process.execPath, [TRACE, url, ...request], { cwd: `${import.meta.dirname}/..` });
      const { status, files, entries } = JSON.parse(trace.toString());
      process.stdout.write(
        `\n${name}: ${files.length} files, ${entries} returns (${status})\n  ${files.join("\n  ")}\n`,
      );
    }
  } finally {
    await cluster.remove();
  }
}

// npm run -s db:url: prints the owner's connection string of the running embedded database, for psql.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readConfig } from "./config.ts";

const { databaseUrl, dataDir } = readConfig();
process.stdout.write(`${databaseUrl || embeddedUrl(dataDir)}\n`);

function embeddedUrl(folder: string): string {
  try {
    const password = readFileSync(join(folder, "postgres-password"), "utf8").trim();
    // The fourth line of postmaster.pid is the port.
    const port = readFileSync(join(folder, "postgres", "postmaster.pid"), "utf8").split("\n")[3];
    return `postgres://postgres:${password}@127.0.0.1:${port}/content`;
  } catch {
    process.stderr.write(`no embedded database is running on ${folder}; start it with: npm start\n`);
    process.exit(1);
  }
}

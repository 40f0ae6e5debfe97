// npm run -s db:url: prints the owner's connection string of the running embedded database, for psql.
import { readConfig } from "../config/config.ts";
import { runningUrl } from "../db/cluster/data-directory.ts";

const { databaseUrl, dataDir } = readConfig();
const url = databaseUrl || runningUrl(dataDir);
if (url) {
  process.stdout.write(`${url}\n`);
} else {
  process.stderr.write(`no embedded database is running in ${dataDir}; start it with npm start\n`);
  process.exitCode = 1;
}

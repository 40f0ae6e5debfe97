import { rm } from "node:fs/promises";
import { join } from "node:path";
import { COMMAND } from "../config/command.ts";
import type { Environment } from "../config/config.ts";
import { withClient } from "../db/cluster/client.ts";
import { CommandError, defineCommand, FLAG, ownerUrl, readSettings, runningUrl } from "./command.ts";

const URL_HELP = `\
Prints the connection URL of the owner of the database: DATABASE_URL, also that of SETTINGS_FILE or .env, or the embedded database while
the service runs. Without a URL it prints nothing, and psql must not run: it would use the database that the variables PG… name.

  URL=$(${COMMAND} url) && psql "$URL"
`;

export const url = defineCommand({
  name: "url",
  help: URL_HELP,
  run: async (_, environment?: Environment) => `${ownerUrl(await readSettings(environment))}\n`,
});

const RESET_HELP = `\
Deletes the embedded database with all its data. The next start makes a new one.

  ${COMMAND} reset --yes
`;

export const reset = defineCommand({
  name: "reset",
  help: RESET_HELP,
  options: { yes: FLAG },
  async run({ values }, environment?: Environment) {
    const { databaseUrl, dataDir } = await readSettings(environment);
    if (databaseUrl !== "")
      throw new CommandError(1, "reset deletes only the embedded database, but DATABASE_URL is set");
    if (await isReachable(dataDir)) throw new CommandError(1, `a service uses ${dataDir}: stop it first`);
    if (!values.yes)
      throw new CommandError(2, `to delete the database in ${dataDir} with all its data, run ${COMMAND} reset --yes`);
    await rm(join(dataDir, "postgres"), { recursive: true, force: true });
    return `The database in ${dataDir} is deleted. The next start makes a new one.\n`;
  },
});

async function isReachable(dataDir: string): Promise<boolean> {
  const url = runningUrl(dataDir);
  if (url === null) return false;
  return withClient(url, async () => true).catch(() => false);
}

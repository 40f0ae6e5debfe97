// npm run -s db:url: prints the owner's connection string of the database, for psql.
import { ownerUrl, readSettings, runCommand } from "./command.ts";

await runCommand(async () => `${ownerUrl(readSettings())}\n`);

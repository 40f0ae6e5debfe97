import { COMMAND } from "../config/command.ts";
import type { Environment } from "../config/config.ts";
import { loadParts } from "../service/parts.ts";
import { defineCommand, inColumns, readService } from "./command.ts";
import { allParts } from "./open-parts.ts";

const HELP = `\
Lists the parts of the service and of the application, and which are open. The settings are those of the environment and of .env.

  ${COMMAND} parts
  ${COMMAND} parts --help     show this help

PARTS=+console opens one more, PARTS=-site leaves one out with those that need it, PARTS=console,site opens these alone, and
PARTS=none opens none.
What a part needs is open with it.
A part for development is open with the embedded database, and with DATABASE_URL if PARTS names it.
`;

export const partsCommand = defineCommand({
  name: "parts",
  help: HELP,
  async run(_, environment?: Environment) {
    const configured = await readService(environment);
    const list = allParts(configured);
    const open = await loadParts(list, configured.config);
    const rows = list.map(async ({ name, isForDevelopment = false, load }) => ({
      part: name,
      state: open.some((part) => part.name === name) ? "open" : "not open",
      for: isForDevelopment ? "development" : "everywhere",
      serves: (await load()).about,
    }));
    return inColumns(["part", "state", "for", "serves"], await Promise.all(rows));
  },
});

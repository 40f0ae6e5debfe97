import { COMMAND } from "../config/command.ts";
import type { Environment } from "../config/config.ts";
import { readModules } from "../db/cluster/modules.ts";
import { loadParts } from "../service/parts.ts";
import { defineCommand, inColumns, readService, withOwner } from "./command.ts";
import { allParts } from "./open-parts.ts";

const HELP = `\
Lists the parts of the service and of the application, which are open, and the modules that they use in the database, with the version there.
The settings are those of the environment and of .env.

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
    const { config } = configured;
    const open = await loadParts(list, config);
    // The list is of use before there is a database too.
    const states = await withOwner(config, (client) => readModules(client, config)).catch(() => null);
    const versionOf = (module: string) => {
      if (states === null) return module;
      return `${module} ${states.find((state) => state.name === module)?.version ?? "(not installed)"}`;
    };
    const rows = list.map(async ({ name, isForDevelopment = false, modules = [], load }) => ({
      part: name,
      state: open.some((part) => part.name === name) ? "open" : "not open",
      modules: modules.map(versionOf).join(", "),
      for: isForDevelopment ? "development" : "everywhere",
      serves: (await load()).about,
    }));
    return inColumns(["part", "state", "modules", "for", "serves"], await Promise.all(rows));
  },
});

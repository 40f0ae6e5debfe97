import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MIGRATIONS } from "../../app/application.ts";
import { CONFIG_FILE, findApplication } from "../../app/load.ts";
import { CommandError, defineCommand, programOf } from "../../cli/command.ts";
import { COMMAND } from "../../config/command.ts";
import { folderIn, shellEnvironment, variablesOf } from "../../config/config.ts";
import { migrationCommand } from "./migrations/migrate.ts";

const HELP = `\
Checks an application: its types, if it has a tsconfig.json, its migrations, and its tests, which vitest runs. A migration in current.sql
counts, unless CI is set, as in continuous integration.

  ${COMMAND} test                  run everything
  ${COMMAND} test access api       run the test files whose names contain one of these
  ${COMMAND} test -u               options of vitest: this one writes snapshots, such as test/access.md, again
  ${COMMAND} test --help           show this help

The tests need no running service and no database: they start an embedded one. They do not read .env.
`;

export const testCommand = defineCommand({
  name: "test",
  help: HELP,
  handsOn: true,
  async run({ args }) {
    const folder = findApplication(folderIn());
    if (folder === null)
      throw new CommandError(2, `there is no ${CONFIG_FILE} here: run the command in the folder of the application`);
    const vitest = programOf(folder, "vitest", "vitest.mjs");
    if (existsSync(join(folder, "tsconfig.json")))
      await run(folder, programOf(folder, "typescript", "bin/tsc"), ["--noEmit"]);
    if (existsSync(join(folder, MIGRATIONS))) {
      const isIntegration = Boolean(variablesOf(["CI"]).CI);
      // Tests get no variables of .env, which has the database of development.
      const environment = shellEnvironment();
      process.stdout.write(await migrationCommand(["check", ...(isIntegration ? [] : ["--current"])], { environment }));
    }
    await run(folder, vitest, ["run", ...args], SNAPSHOTS);
    return "";
  },
});

const SNAPSHOTS = `. If a snapshot mismatches, such as test/access.md: lines with - are what it was, and lines with + what it is now. To accept them all, run ${COMMAND} test -u`;

/** Runs a program of Node in the folder, with the terminal of this process. It says itself why it fails. */
async function run(folder: string, program: string, args: readonly string[], hint = ""): Promise<void> {
  const child = spawn(process.execPath, [program, ...args], { cwd: folder, stdio: "inherit" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new CommandError(1, `${COMMAND} test: failed${hint}`);
}

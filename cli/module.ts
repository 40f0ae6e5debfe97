import { COMMAND } from "../config/command.ts";
import type { Config, Environment } from "../config/config.ts";
import { alone } from "../db/cluster/migrate.ts";
import { type Removed, removeModules } from "../db/cluster/module-removal.ts";
import { type ModuleState, readModules } from "../db/cluster/modules.ts";
import { MODULES, type Module } from "../db/modules/modules.ts";
import {
  CommandError,
  defineCommand,
  FLAG,
  inColumns,
  ownerUrl,
  readSettings,
  throwFailure,
  withOwner,
} from "./command.ts";
import { type Dependent, findObstacles, type Obstacles } from "./module-obstacles.ts";

const HELP = `\
Lists or removes the modules of the service in the database: ${MODULES.map(({ name }) => name).join(", ")}.

  ${COMMAND} module list                       the version and the code of each, and what a start would do
  ${COMMAND} module remove <module>…           show what that would drop; the database is only read
  ${COMMAND} module remove <module>… --yes     remove modules with all their data
  ${COMMAND} module --help                     show this help

A module is not removed while a service runs, or while something of your application depends on it: policies, views,
functions, foreign keys, defaults, triggers, hooks. The command then lists them, with exit code 1. Without --yes it does the same also while a
service runs.
caller is the last one: the others need it. The next start installs what MODULES names, so leave the removed ones out.
`;

export const moduleCommand = defineCommand({
  name: "module",
  help: HELP,
  options: { yes: FLAG },
  maxArguments: Number.POSITIVE_INFINITY,
  async run({ values: { yes }, args: [name, ...chosen], refuse }, environment?: Environment) {
    if (name === "list" && chosen.length === 0 && !yes) return list(await readSettings(environment));
    if (name !== "remove" || chosen.length === 0) throw refuse("expected list, or remove <module>…");
    const unknown = chosen.find((each) => !MODULES.some((module) => module.name === each));
    if (unknown !== undefined)
      throw new CommandError(2, `there is no module ${unknown}: ${MODULES.map((module) => module.name).join(", ")}`);
    const modules = MODULES.filter((module) => chosen.includes(module.name));
    return remove(await readSettings(environment), modules, yes).catch(throwFailure);
  },
});

async function list(config: Config): Promise<string> {
  const states = await withOwner(config, (client) => readModules(client, config));
  return inModuleColumns(states);
}

/** A table of the modules. */
export function inModuleColumns(states: readonly ModuleState[]): string {
  const rows = states.map(({ name, version, hasThisCode, pending }) => ({
    module: name,
    version: version ?? "not installed",
    code: version === null ? "" : hasThisCode ? "of this version" : "of another version",
    "next start": pending,
  }));
  return inColumns(["module", "version", "code", "next start"], rows);
}

async function remove(config: Config, modules: readonly Module[], isSure: boolean): Promise<string> {
  const names = modules.map(({ name }) => name).join(" ");
  return alone(
    ownerUrl(config),
    () => {},
    async (client) => {
      const states = await readModules(client, config);
      const absent = modules.find((module) =>
        states.some(({ name, version }) => name === module.name && version === null),
      );
      if (absent !== undefined) throw new CommandError(1, `the module ${absent.name} is not installed`);
      const obstacles = await findObstacles(client, modules);
      refuseObstacles(names, obstacles);
      if (isSure && obstacles.connections > 0) throw new CommandError(1, RUNNING);
      if (!isSure) return planOf(modules, obstacles);
      return `Removed: ${names}. The next start installs what MODULES names.\n${textOf(await removeModules(client, modules))}`;
    },
  );
}

/** What stays. */
const textOf = ({ keptRoles, closedTables }: Removed): string =>
  [
    ...(keptRoles.length > 0
      ? [
          "These roles stay, because something uses them. Revoke or drop that, then drop the roles:",
          ...keptRoles.map(({ name, uses }) => `  ${name}: ${listOf(uses)}`),
        ]
      : []),
    ...(closedTables.length > 0
      ? [
          `These tables have row-level security and no policy, so roles with rights on them see no rows. Where that is not wanted, create a policy: ${closedTables.join(", ")}.`,
        ]
      : []),
  ]
    .map((line) => `${line}\n`)
    .join("");

const MAX_USES = 5;

function listOf(uses: readonly string[]): string {
  const others = uses.length - MAX_USES;
  return [...uses.slice(0, MAX_USES), ...(others > 0 ? [`and ${others} more`] : [])].join("; ");
}

/** Throws CommandError if the modules must not be removed. */
function refuseObstacles(names: string, { neededBy, connections, dependents, hooks }: Obstacles): void {
  if (neededBy.length > 0)
    throw new CommandError(1, `these modules need caller, so remove them too: ${neededBy.join(", ")}`);
  const listed = [...dependents, ...hooks];
  if (listed.length === 0) return;
  throw new CommandError(
    1,
    [
      `nothing was removed: your application uses ${names}. ${LISTED}`,
      linesOf(listed),
      ...(hooks.length > 0 ? [HOOKS] : []),
      ...(connections > 0 ? [RUNNING] : []),
    ].join("\n"),
  );
}

const RUNNING =
  "a service uses this database: stop it before you remove modules (the processes of content-service start and dev, in each container)";
const LISTED =
  "Drop or change all of these first. Below each is the select that shows it, if there is one, and then the statement that removes it:";
const HOOKS =
  "No start runs your migrations again: if you install auth again later, set its hooks and its table of users in a new migration.";

function planOf(modules: readonly Module[], { mentions, connections, ...obstacles }: Obstacles): string {
  const names = modules.map(({ name }) => name).join(" ");
  const schemas = obstacles.schemas.join(", ") || "their roles";
  return [
    `Nothing was changed. Removing ${names} drops ${schemas} with all data.`,
    ...(mentions.length > 0
      ? [`These functions name ${schemas} in their text, and fail afterwards if they use them:\n${linesOf(mentions)}`]
      : []),
    ...(connections > 0 ? [`${RUNNING[0]!.toUpperCase()}${RUNNING.slice(1)}.`] : []),
    `To do it, run: ${COMMAND} module remove ${names} --yes`,
  ]
    .map((line) => `${line}\n`)
    .join("");
}

const linesOf = (dependents: readonly Dependent[]): string =>
  dependents
    .flatMap(({ object, sql, undo }) => [`  ${object}`, ...[sql, undo].filter(Boolean).map((each) => `    ${each};`)])
    .join("\n");

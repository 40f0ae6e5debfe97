import { readFile } from "node:fs/promises";
import type pg from "pg";
import { COMMAND } from "../config/command.ts";
import type { Config, Environment } from "../config/config.ts";
import {
  LOCK,
  passwordOf,
  passwordStatement,
  passwordStep,
  refusalsOf,
  whyNotSettable,
  withOtherPasswords,
} from "../db/cluster/login-passwords.ts";
import { changedMigrations, migrate } from "../db/cluster/migrate.ts";
import { type MigrationState, pendingIn, readMigrationState, stepFor } from "../db/cluster/migration-state.ts";
import { readCommitted } from "../db/cluster/migrations-folder.ts";
import { compareVersions, VERSION } from "../db/cluster/modules.ts";
import { refuseOldServer } from "../db/cluster/open.ts";
import { findLogins, refuseForeignLogins } from "../db/cluster/provision.ts";
import { CommandError, defineCommand, FLAG, ownerUrl, readService, throwFailure, withOwner } from "./command.ts";
import { type MigrationNotes, notesIn } from "./migration-notes.ts";
import { explainWith } from "./open-parts.ts";

const HELP = `\
Upgrades the database to the installed version, while instances of the previous version serve it.

  ${COMMAND} upgrade          show what this version changes, and what it would do; the database is only read
  ${COMMAND} upgrade --sql    show the SQL of these migrations of the application too
  ${COMMAND} upgrade --yes    run the migrations of the modules and of the application, and set the passwords of the
                                     logins if JWT_SECRET has changed, or the database was restored elsewhere
  ${COMMAND} upgrade --help   show this help

Below a migration of the application is what ${COMMAND} migrate commit has found in it: locks, tables that are written again, what
its comments accept, and why it breaks clients.

Install the new version first. The service does the same when it starts, except with MIGRATE=check. If a step fails, it has changed
nothing: the modules are one step, and each migration of the application is one. Then the exit code is 1.
`;

/** Headings of a version in CHANGELOG.md that say what clients and operators may have to change. */
const NOTABLE = ["Breaking changes", "Deprecated"];
const CHANGELOG = new URL("../CHANGELOG.md", import.meta.url);

export const upgrade = defineCommand({
  name: "upgrade",
  help: HELP,
  options: { yes: FLAG, sql: FLAG },
  async run({ values }, environment?: Environment) {
    const configured = await readService(environment);
    const { application, config } = configured;
    if (!config.isManaged)
      return "With MIGRATE=off the service has nothing in the database: there is nothing to upgrade.\n";
    const folder = config.migrate === "modules" ? null : application.migrationsFolder;
    const installation = { folder, modules: config.modules, userId: config.authUserId };
    const direct = { ...config, databaseUrl: config.databaseDirectUrl || config.databaseUrl };
    const read = async (client: pg.Client) => {
      await refuseOldServer(client);
      return { state: await readMigrationState(client, installation), passwords: await readPasswords(client, direct) };
    };
    return withOwner(direct, read)
      .then(async ({ state, passwords: { refused, obstacle } }) => {
        const report = reportOf(state, await readFile(CHANGELOG, "utf8"));
        const pending = [...pendingIn(state), ...(refused.length > 0 ? [passwordStep(refused)] : [])];
        const migrates = pending.length > 0 && values.yes;
        // Otherwise the migration warns.
        if (state.changed.length > 0 && !migrates) warn("warning", changedMigrations(state.changed));
        if (pending.length === 0) return `${report}The database is up to date: there is nothing to do.\n`;
        const details = await detailsOf(state, folder, values.sql);
        const steps = `An upgrade of the database:\n${pending.map((step) => `  ${step}\n${details.get(step) ?? ""}`).join("")}`;
        if (!migrates && obstacle !== null) return `${report}${steps}\nNothing has been changed. ${obstacle}\n`;
        if (!migrates)
          return `${report}${steps}\nNothing has been changed. ${COMMAND} upgrade --yes does it, and ${config.migrate === "check" ? "with MIGRATE=check no start does" : "so does a start of this version"}.\n`;
        // Before the migrations, so that nothing has changed.
        if (obstacle !== null) throw new CommandError(1, obstacle);
        if (refused.length > 0) await withOwner(direct, refuseForeign);
        await migrate(ownerUrl(direct), warn, installation).catch(
          explainWith(configured, ownerUrl(direct), folder !== null),
        );
        if (refused.length > 0) await withOwner(direct, (client) => setPasswords(client, refused, secretIn(config)));
        return `${report}${steps}\nDone. Start the instances of this version.\n`;
      })
      .catch(throwFailure);
  },
});

/** What the commit of each migration has found, and its SQL, below the step that runs it. */
async function detailsOf({ migrations }: MigrationState, folder: string | null, hasSql: boolean) {
  const files = migrations.filter(({ isApplied }) => !isApplied).map(({ file }) => file);
  const details = files.map(async (file) => {
    const { text } = readCommitted(folder!, file);
    const lines = [...noteLines(notesIn(text)), ...(hasSql ? text.trimEnd().split("\n") : [])];
    return [stepFor(file), lines.map((line) => (line === "" ? "\n" : `    ${line}\n`)).join("")] as const;
  });
  return new Map(await Promise.all(details));
}

const noteLines = ({ judgements, accepted, breaking }: MigrationNotes): readonly string[] => [
  ...judgements,
  ...accepted.map(([rule, reason]) => `accepted, ${rule}: ${reason}`),
  ...(breaking === null ? [] : [`it breaks clients: ${breaking} (CHANGELOG.md of the application lists the changes)`]),
];

type Passwords = { readonly refused: readonly string[]; readonly obstacle: string | null };

/** The logins whose passwords do not follow from the secret. Without a secret they are not known, and an embedded database keeps its own. */
async function readPasswords(client: pg.Client, config: Config): Promise<Passwords> {
  const secret = secretIn(config);
  const { logins, missing } = await findLogins(client, ownerUrl(config), secret);
  if (secret === "" || missing.length > 0) return { refused: [], obstacle: null };
  const refused = withOtherPasswords(await refusalsOf(Object.values(logins)));
  return { refused, obstacle: await whyNotSettable(client, refused, `run ${COMMAND} upgrade --yes`) };
}

const refuseForeign = (client: pg.Client): Promise<void> =>
  refuseForeignLogins(client).catch(({ message }: Error) => {
    throw new CommandError(1, message);
  });

const secretIn = ({ jwtSecret, jwtPrivateKey }: Config): string => jwtSecret || jwtPrivateKey;

const warn = (level: string, message: string): void => {
  if (level === "warning") process.stderr.write(`${message}\n`);
};

/** The versions, and what the changelog says about the way from one to the other. */
function reportOf({ modules }: MigrationState, changelog: string): string {
  const installed = modules.flatMap(({ version }) => version ?? []).sort(compareVersions);
  const newest = installed.at(-1);
  if (newest === undefined) return `The database has no modules of the service. This is version ${VERSION}.\n`;
  if (compareVersions(newest, VERSION) > 0)
    return `Version ${newest} has migrated the database, and this is ${VERSION}: it serves the newer modules as they are.\n`;
  const head = `The modules in the database are those of ${newest}, and this is version ${VERSION}.\n`;
  const changes = notableChanges(changelog, newest);
  return changes === "" ? head : `${head}\n${changes}\n`;
}

/** What the changelog has under `### Breaking changes` and `### Deprecated` of the versions after this one. */
export function notableChanges(changelog: string, after: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  return sections
    .flatMap((section) => {
      const [version] = /^\d+\.\d+\.\d+\S*/.exec(section) ?? [];
      if (version === undefined || compareVersions(version, after) <= 0) return [];
      const parts = section.split(/^### /m).slice(1);
      return parts
        .filter((part) => NOTABLE.some((heading) => part.startsWith(`${heading}\n`)))
        .map((part) => `${version}: ${part.trim()}\n`);
    })
    .join("\n");
}

/** Sets the passwords of these logins to those that follow from `secret`, in one transaction. */
async function setPasswords(client: pg.Client, logins: readonly string[], secret: string): Promise<void> {
  await client.query("begin");
  await client.query(LOCK);
  for (const login of logins) await client.query(passwordStatement(login, passwordOf(login, secret)));
  await client.query("commit");
}

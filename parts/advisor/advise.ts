// Prints what is wrong in the database, and the SQL that fixes it.
import type { ClientBase } from "pg";
import type { Configured } from "../../app/configured.ts";
import { CommandError, defineCommand, FLAG, ownerUrl, readService, TEXT, withOwner } from "../../cli/command.ts";
import { openParts } from "../../cli/open-parts.ts";
import { COMMAND } from "../../config/command.ts";
import type { Environment } from "../../config/config.ts";
import { type Advice, countsOf, type Finding, LEVELS, sorted } from "../../db/findings/finding.ts";
import { settingsInDatabase } from "../../db/follow/live-settings.ts";
import { retryLocked } from "../../db/follow/lock-retries.ts";
import { type AdviceOptions, advise, readRules, rulesOf } from "./advisor.ts";
import { grouped } from "./grouped.ts";
import { readAcceptances } from "./live.ts";
import { setupOf } from "./setup.ts";

const HELP = `\
Checks the database for mistakes that leak rows, break requests or slow them down.

  ${COMMAND} advise                   print all findings, with the SQL that fixes them
  ${COMMAND} advise --level warning   leave out notes; error leaves out warnings too
  ${COMMAND} advise --accepted        print also what a smart tag or the file of ADVISOR accepts
  ${COMMAND} advise --json            print JSON
  ${COMMAND} advise --rules           list the rules
  ${COMMAND} advise --help            show this help

A finding is accepted by a smart tag in the comment of its object, with the reason, above what the comment says:

  comment on table public.rates is e'@accept table-without-row-security rates are public\\nExchange rates of the day.';

or by a line in the file that ADVISOR names:

  table-without-row-security table public.rates # rates are public

The exit code is 1 if there is an error, otherwise 0. The command uses the settings of the service: DATABASE_URL,
or the embedded database while the service runs.
`;

/** With findings that are errors, the exit code is 1. */
export const adviseCommand = defineCommand({
  name: "advise",
  help: HELP,
  options: { rules: FLAG, json: FLAG, accepted: FLAG, level: { ...TEXT, default: "note" } },
  async run({ values, refuse }, environment?: Environment) {
    const shownLevel = LEVELS.find((each) => each === values.level);
    if (shownLevel === undefined) throw refuse(`--level must be ${LEVELS.join(", ")}`);
    const given = await readService(environment);
    if (values.rules) return listRules(given);
    const configured = { ...given, config: (await settingsInDatabase(given.config, ownerUrl(given.config))).config };
    const advice = await withOwner(configured.config, (client) => readAdvice(client, configured));
    const shown = sorted(advice.findings).filter(({ level }) => LEVELS.indexOf(level) <= LEVELS.indexOf(shownLevel));
    const output = values.json
      ? `${JSON.stringify({ findings: shown, accepted: advice.accepted }, null, 2)}\n`
      : textOf(shown, advice, values.accepted);
    if (shown.some(({ level }) => level === "error")) throw new CommandError(1, "the database has errors", output);
    return output;
  },
});

/** What the rules find, and what GraphQL leaves out. */
export async function readAdvice(client: ClientBase, configured: Configured): Promise<Advice> {
  const { config } = configured;
  const acceptances = await readAcceptances(config.advisor).catch((error: Error) => {
    throw new CommandError(2, `ADVISOR: ${error.message}`);
  });
  const rules = rulesOf(await openParts(configured));
  const options: AdviceOptions = { ...(await setupOf(client, config)), schemas: config.dbSchemas, acceptances, rules };
  const advice = await retryLocked(() => advise(client, options));
  const [login] = options.logins;
  const { rowCount } = await client.query("select from pg_roles where rolname = $1", [login]);
  if (rowCount === 0)
    throw new CommandError(
      1,
      "this database does not have the roles of this service: set MIGRATE=off as for the service, or start it once",
    );
  const more = config.hasGraphQL ? await leftOutFor(configured, login!) : [];
  return { ...advice, findings: [...advice.findings, ...more] };
}

/** What GraphQL leaves out. Its schema is built with the grants of `login`, the login of callers. */
async function leftOutFor(configured: Configured, login: string): Promise<readonly Finding[]> {
  const [{ withSchemaOptions }, { findLeftOut }] = await Promise.all([
    import("../../cli/open-core.ts"),
    import("./left-out.ts"),
  ]);
  return withSchemaOptions(configured, login, findLeftOut);
}

async function listRules(configured: Configured): Promise<string> {
  const rules = await readRules(rulesOf(await openParts(configured)));
  const width = Math.max(...rules.map(({ name }) => name.length));
  return rules.map(({ name, level, about }) => `${level.padEnd(8)} ${name.padEnd(width)}  ${about}\n`).join("");
}

function textOf(shown: readonly Finding[], { findings, accepted }: Advice, showsAccepted: boolean): string {
  const blocks = grouped(shown).map(({ level, rule, object, reason, fix }) =>
    [`${level}: ${object}`, `  ${reason} (${rule})`, ...(fix === null ? [] : [indented(fix)])].join("\n"),
  );
  const others = showsAccepted
    ? accepted.map(({ level, object, rule, because }) => `accepted ${level}: ${object}\n  ${because} (${rule})`)
    : [];
  return `${[...blocks, ...others, summaryOf(findings, accepted, findings.length - shown.length)].join("\n\n")}\n`;
}

const indented = (sql: string) => sql.replace(/^/gm, "    ");

/** `1 error, 0 warnings, 2 notes, 4 accepted; --level hides 2` */
function summaryOf(findings: readonly Finding[], accepted: Advice["accepted"], hidden: number): string {
  const { errors, warnings, notes } = countsOf(findings);
  const rest = accepted.length > 0 ? `, ${accepted.length} accepted` : "";
  const ending = hidden > 0 ? `; --level hides ${hidden}` : "";
  return `${count(errors, "error")}, ${count(warnings, "warning")}, ${count(notes, "note")}${rest}${ending}`;
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;

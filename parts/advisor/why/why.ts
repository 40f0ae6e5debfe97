// Says why a subscriber does not receive a change.
import { CommandError, defineCommand, FLAG, readSettings, TEXT } from "../../../cli/command.ts";
import { COMMAND } from "../../../config/command.ts";
import type { Config, Environment } from "../../../config/config.ts";
import { anonymous } from "../../../db/caller.ts";
import { FilterError } from "../../../db/rights/filter.ts";
import { type AskedEvent, askedKey, askedTable, EVENTS, jsonObject, QuestionFault } from "./asked-change.ts";
import type { Step } from "./change-setup.ts";
import { withMissingChange } from "./database.ts";
import type { Reception } from "./missing-change.ts";
import { parseStreamFilter } from "./stream-filter.ts";

const HELP = `\
Says why a subscriber does not receive a change of a row. Nothing is changed.

  ${COMMAND} why public.posts INSERT --key 7
      whether anonymous subscribers receive the INSERT of the row with this primary key
  ${COMMAND} why public.posts UPDATE --key 7 --old '{"status": "DRAFT"}' --role authenticated --claims '{"sub": "1"}'
      the same of an UPDATE of status, for user 1
  ${COMMAND} why public.posts DELETE --old '{"id": 7, "author_id": 1}' --filter 'author_id=eq.1'
      the same of the DELETE of a row that no longer exists, for a subscriber with a filter

  --key <values>      primary key of a row that exists, its values separated by commas: both rows begin with its values
  --old <JSON>        values of the old row, of UPDATE and DELETE
  --new <JSON>        values of the new row, of INSERT and UPDATE
  --role <role>       role of the subscriber; DB_ANON_ROLE by default
  --claims <JSON>     claims of its token
  --filter <filter>   conditions as in the URL of a stream: status=eq.DRAFT&id=gt.5
  --reader <role>     role that reads the row of --key; by default the login of DATABASE_URL, or a role that it may become
  --json              print JSON
  --help              show this help

Each line is a condition: yes or no, why, and the SQL that changes it. The last line says what the subscriber receives.
docs/realtime.md says what to do about each. The page Why of the console gives the same answer.
The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

export const why = defineCommand({
  name: "why",
  help: HELP,
  options: {
    ...{ json: FLAG, claims: { ...TEXT, default: "{}" } },
    ...{ key: TEXT, old: TEXT, new: TEXT, role: TEXT, filter: TEXT, reader: TEXT },
  },
  maxArguments: 2,
  async run({ values, args: [table, name], refuse }, environment?: Environment) {
    const event = EVENTS.find((each) => each === name?.toUpperCase());
    if (table === undefined || event === undefined) throw refuse(`expected a table and one of ${EVENTS.join(", ")}`);
    const claims = jsonObject(values.claims);
    if (claims === null) throw refuse('--claims must be a JSON object, such as {"sub": "1"}');
    const config = await readSettings(environment);
    try {
      const reception = await receptionOf({ ...values, table, event, claims }, config);
      return values.json ? `${JSON.stringify(reception, null, 2)}\n` : textOf(reception);
    } catch (error) {
      if (error instanceof QuestionFault || error instanceof FilterError) throw new CommandError(2, error.message);
      throw error;
    }
  },
});

type Question = {
  readonly table: string;
  readonly event: AskedEvent;
  readonly claims: Readonly<Record<string, unknown>>;
} & { readonly [name in "key" | "old" | "new" | "role" | "filter" | "reader"]?: string | undefined };

/** Answers with a database connection of its own. */
const receptionOf = (question: Question, config: Config): Promise<Reception> =>
  withMissingChange(config, async ({ check, catalog, login, filterLimits, find }) => {
    const { event, claims, old = "", new: current = "", filter = "" } = question;
    const table = askedTable(question.table, catalog);
    const key = question.key === undefined ? null : askedKey(question.key, table);
    const role = question.role ?? config.dbAnonRole;
    const caller = { ...anonymous(role), claims: { ...claims, role } };
    // A login that serves requests has no rights of its own.
    const names = question.reader ? [question.reader] : [login, ...(catalog.roles.get(login)?.mayBecome ?? [])];
    const readers = [...new Set(names)].map((name) => (name === role ? caller : anonymous(name)));
    return check.explain({
      table,
      caller,
      change: { event, old, new: current, readRow: key && ((changes) => find(table, key, readers, changes)) },
      filter: parseStreamFilter(filter, filterLimits),
    });
  });

const textOf = ({ steps, answer }: Reception): string => `${steps.map(blockOf).join("")}\n${answer}\n`;

function blockOf({ condition, isMet, obstacles }: Step): string {
  const lines = obstacles.flatMap(({ reason, expression, fix }) => [
    `       ${reason}${expression === null ? "" : `: ${expression}`}`,
    ...(fix === null ? [] : [fix.replace(/^/gm, "         ")]),
  ]);
  return [`${isMet ? "yes" : "no "}  ${condition}`, ...lines].map((line) => `${line}\n`).join("");
}

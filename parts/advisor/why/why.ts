// Says why a subscriber does not receive a change.
import { parseArgs } from "node:util";
import { CommandError, readSettings } from "../../../cli/command.ts";
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
  --reader <role>     role that reads the row of --key; the login of DATABASE_URL by default
  --json              print JSON
  --help              show this help

Each line is a condition: yes or no, why, and the SQL that changes it. The last line says what the subscriber receives.
docs/missing-changes.md says what to do about each. The page Why of the console gives the same answer.
The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

type Options = {
  readonly table: string;
  readonly event: AskedEvent;
  readonly key: string | null;
  readonly old: string;
  readonly new: string;
  readonly role: string | null;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly filter: string;
  readonly reader: string | null;
  readonly json: boolean;
};

/** The output for these arguments. Throws CommandError. */
export async function why(args: string[], environment?: Environment): Promise<string> {
  const options = readOptions(args);
  if (options === null) return HELP;
  const config = await readSettings(environment);
  try {
    const reception = await receptionOf(options, config);
    return options.json ? `${JSON.stringify(reception, null, 2)}\n` : textOf(reception);
  } catch (error) {
    if (error instanceof QuestionFault || error instanceof FilterError) throw new CommandError(2, error.message);
    throw error;
  }
}

/** Answers with a database connection of its own. */
const receptionOf = (options: Options, config: Config): Promise<Reception> =>
  withMissingChange(config, async ({ check, catalog, login, filterLimits, find }) => {
    const table = askedTable(options.table, catalog);
    const key = options.key === null ? null : askedKey(options.key, table);
    const reader = options.reader ?? login;
    const { event, old, new: current } = options;
    const role = options.role ?? config.dbAnonRole;
    return check.explain({
      table,
      caller: { ...anonymous(role), claims: { ...options.claims, role } },
      change: { event, old, new: current, readRow: key && ((changes) => find(table, key, reader, changes)) },
      filter: parseStreamFilter(options.filter, filterLimits),
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

function readOptions(args: string[]): Options | null {
  const text = { type: "string" } as const;
  const options = {
    help: { type: "boolean", short: "h" },
    json: { type: "boolean", default: false },
    ...{ key: text, old: text, new: text, role: text, claims: text, filter: text, reader: text },
  } as const;
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    if (values.help) return null;
    const [table, name = "", ...more] = positionals;
    const event = EVENTS.find((each) => each === name.toUpperCase());
    if (table === undefined || event === undefined || more.length > 0)
      throw new Error(`expected a table and one of ${EVENTS.join(", ")}`);
    const { key = null, old = "", role = null, filter = "", reader = null, json } = values;
    return {
      table,
      event,
      key,
      old,
      new: values.new ?? "",
      role,
      claims: claimsIn(values.claims),
      filter,
      reader,
      json,
    };
  } catch (error) {
    throw new CommandError(2, `${(error as Error).message}; see ${COMMAND} why --help`);
  }
}

function claimsIn(text = "{}"): Options["claims"] {
  const claims = jsonObject(text);
  if (claims === null) throw new Error('--claims must be a JSON object, such as {"sub": "1"}');
  return claims;
}

import { parseArgs } from "node:util";
import type pg from "pg";
import type { Environment } from "../config/config.ts";
import { inColumns } from "./columns.ts";
import { Refusal, readSettings, runCommand, withOwner } from "./command.ts";
import { OperatorKeys } from "./key-repository.ts";

const HELP = `\
Looks after the keys that are nobody's in particular, also while the service runs: a revoked one is refused within a second.

  npm run -s key -- create anon <name>       a key for everybody, which may be shown to browsers
  npm run -s key -- create service <name>    a key that is bound by no policy, for servers alone
  npm run -s key -- list                     all of them, without the keys themselves
  npm run -s key -- revoke <id or prefix>    ends one
  npm run -s key -- --help                   this text

A key is printed once: the database keeps its hash.
The settings are those of npm start: DATABASE_URL, or the embedded database while npm start runs.
`;

/** What is printed for these arguments; throws Refusal. */
export async function key(args: string[], environment?: Environment): Promise<string> {
  const { help, given } = readArguments(args);
  if (help) return HELP;
  const [action, first = "", second = "", ...more] = given;
  const count = given.length;
  const withKeys = (work: (keys: OperatorKeys) => Promise<string>) =>
    withOwner(readSettings(environment), (client) => act(client, work));
  if (action === "list" && count === 1) return withKeys(list);
  if (action === "revoke" && count === 2) return withKeys((keys) => revoke(keys, first));
  const isCreate = action === "create" && (first === "anon" || first === "service") && more.length === 0;
  if (!isCreate || second.trim() === "") {
    throw misused("say create anon <name>, create service <name>, list, or revoke <id or prefix>");
  }
  return withKeys(async (keys) => `${await keys.create(first, second)}\n`);
}

function readArguments(args: string[]): { readonly help: boolean; readonly given: readonly string[] } {
  try {
    const options = { help: { type: "boolean", short: "h" } } as const;
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    return { help: values.help ?? false, given: positionals };
  } catch (error) {
    throw misused((error as Error).message);
  }
}

const misused = (message: string) => new Refusal(2, `${message}; npm run -s key -- --help tells how`);

async function act(client: pg.Client, work: (keys: OperatorKeys) => Promise<string>): Promise<string> {
  try {
    await client.query("begin");
    const told = await work(new OperatorKeys(client));
    await client.query("commit");
    return told;
  } catch (error) {
    const { constraint, code } = error as pg.DatabaseError;
    if (constraint === "api_keys_name_length") throw new Refusal(1, "a name has 1 to 100 characters");
    if (code === "3F000" || code === "42883" || code === "42P01")
      throw new Refusal(1, "this database has no keys: start the service on it once, with MIGRATE=on");
    throw error;
  }
}

const list = async (keys: OperatorKeys) =>
  inColumns(["id", "kind", "prefix", "name", "created", "used", "state"], await keys.list());

async function revoke(keys: OperatorKeys, idOrPrefix: string): Promise<string> {
  const found = await keys.revoke(idOrPrefix);
  if (found === 1) return "the key is revoked\n";
  const why = found === 0 ? "there is no such key that is good" : "several keys begin like this: name one by its id";
  throw new Refusal(1, `${why}; npm run -s key -- list shows them`);
}

if (import.meta.main) await runCommand(key);

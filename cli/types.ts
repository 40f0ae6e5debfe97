import { parseArgs } from "node:util";
import { COMMAND } from "../config/command.ts";
import type { Config, Environment } from "../config/config.ts";
import { readOnce } from "../db/catalog/read-once.ts";
import { typesOf } from "../rest-gateway/openapi/typescript/database.ts";
import { CommandError, readSettings, withOwner } from "./command.ts";

const HELP = `\
Prints TypeScript types for the database, for createClient<Database>() of @supabase/supabase-js.

  ${COMMAND} types > database.types.ts     types for the schemas in DB_SCHEMAS
  ${COMMAND} types --schema public,sales   types for these schemas
  ${COMMAND} types --role authenticated    types of what this role may use
  ${COMMAND} types --help                  show this help

The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

/** The output for these arguments. Throws CommandError. */
export async function types(args: string[], environment?: Environment): Promise<string> {
  const options = readOptions(args);
  if (options.help) return HELP;
  return databaseTypes(await readSettings(environment), options);
}

/** The types of the database of these settings. Throws CommandError. */
export async function databaseTypes(
  config: Config,
  options: Pick<Options, "schemas" | "role"> = { schemas: null, role: null },
): Promise<string> {
  const schemas = options.schemas ?? config.dbSchemas;
  const catalog = await withOwner(config, (client) => readOnce(client, { ...config, dbSchemas: schemas }));
  const missing = schemas.filter((name) => !catalog.schemas.has(name));
  if (missing.length > 0) throw new CommandError(1, `no such schema: ${missing.join(", ")}`);
  if (options.role !== null && !catalog.roles.has(options.role))
    throw new CommandError(1, `no such role: ${options.role}`);
  return typesOf(catalog, options.role);
}

type Options = { readonly help: boolean; readonly schemas: string[] | null; readonly role: string | null };

function readOptions(args: string[]): Options {
  const options = {
    help: { type: "boolean", short: "h" },
    schema: { type: "string", multiple: true },
    role: { type: "string" },
  } as const;
  try {
    const { help = false, schema, role = null } = parseArgs({ args, options }).values;
    const schemas = schema?.flatMap((names) => names.split(",")).map((name) => name.trim());
    if (schemas?.includes("")) throw new Error("--schema must be names separated by commas");
    return { help, schemas: schemas ?? null, role };
  } catch (error) {
    throw new CommandError(2, `${(error as Error).message}; see ${COMMAND} types --help`);
  }
}

import { CommandError, defineCommand, readSettings, TEXT } from "../../cli/command.ts";
import { withCore } from "../../cli/open-core.ts";
import { COMMAND } from "../../config/command.ts";
import type { Config, Environment } from "../../config/config.ts";
import { typesOf } from "./typescript/database.ts";

const HELP = `\
Prints TypeScript types for the database, for createClient<Database>() of @supabase/supabase-js.

  ${COMMAND} types > database.types.ts     types for the schemas in DB_SCHEMAS
  ${COMMAND} types --schema public,sales   types for these schemas
  ${COMMAND} types --role authenticated    types of what this role may use
  ${COMMAND} types --help                  show this help

The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

export const types = defineCommand({
  name: "types",
  help: HELP,
  options: { schema: { ...TEXT, multiple: true }, role: TEXT },
  async run({ values: { schema, role = null }, refuse }, environment?: Environment) {
    const schemas = schema?.flatMap((names) => names.split(",")).map((name) => name.trim()) ?? null;
    if (schemas?.includes("")) throw refuse("--schema must be names separated by commas");
    return databaseTypes(await readSettings(environment), { schemas, role });
  },
});

/** The types of the database of these settings. Throws CommandError. */
export async function databaseTypes(
  config: Config,
  options: { readonly schemas: string[] | null; readonly role: string | null } = { schemas: null, role: null },
): Promise<string> {
  const schemas = options.schemas ?? config.dbSchemas;
  const catalog = await withCore({ ...config, dbSchemas: schemas }, "catalog", async (core) => core.catalog.current);
  const missing = schemas.filter((name) => !catalog.schemas.has(name));
  if (missing.length > 0) throw new CommandError(1, `no such schema: ${missing.join(", ")}`);
  if (options.role !== null && !catalog.roles.has(options.role))
    throw new CommandError(1, `no such role: ${options.role}`);
  return typesOf(catalog, options.role);
}

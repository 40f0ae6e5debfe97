import { parseArgs } from "node:util";
import pg from "pg";
import { type Config, ConfigError, readConfig } from "./config.ts";
import { buildCatalog } from "./db/catalog/build.ts";
import type { Catalog } from "./db/catalog/catalog.ts";
import { parseCatalog, readCatalog } from "./db/catalog/read.ts";
import { runningUrl } from "./db/cluster/running.ts";
import { typesOf } from "./rest-gateway/types/database.ts";

const HELP = `\
Prints the TypeScript types of the database, for createClient<Database>() of @supabase/supabase-js.

  npm run -s types > database.types.ts         all schemas of DB_SCHEMAS
  npm run -s types -- --schema public,sales    these schemas
  npm run -s types -- --help                   this text

The settings are those of npm start: DATABASE_URL, or the embedded database while npm start runs.
`;

const CONNECT_MILLISECONDS = 10_000;

/** Why there are no types: one line, and 2 as exit code where the command or a setting is wrong. */
class Refusal extends Error {
  readonly exitCode: 1 | 2;
  constructor(exitCode: 1 | 2, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What is printed for these arguments; throws Refusal. */
async function print(args: string[]): Promise<string> {
  const options = readOptions(args);
  if (options.help) return HELP;
  const config = readSettings();
  const schemas = options.schemas ?? config.schemas;
  const catalog = await readDatabase(urlOf(config), { ...config, schemas });
  const missing = schemas.filter((name) => !catalog.schemas.has(name));
  if (missing.length > 0) throw new Refusal(1, `there is no schema to serve that is named ${missing.join(", ")}`);
  return typesOf(catalog);
}

function readOptions(args: string[]): { readonly help: boolean; readonly schemas: string[] | null } {
  const options = { help: { type: "boolean", short: "h" }, schema: { type: "string", multiple: true } } as const;
  try {
    const { help = false, schema } = parseArgs({ args, options }).values;
    const schemas = schema?.flatMap((names) => names.split(",")).map((name) => name.trim());
    if (schemas?.includes("")) throw new Error("--schema takes names with commas in between");
    return { help, schemas: schemas ?? null };
  } catch (error) {
    throw new Refusal(2, `${(error as Error).message}; npm run -s types -- --help tells how`);
  }
}

function readSettings(): Config {
  try {
    return readConfig();
  } catch (error) {
    throw error instanceof ConfigError ? new Refusal(2, error.message) : error;
  }
}

function urlOf({ databaseUrl, dataDir }: Config): string {
  const url = databaseUrl || runningUrl(dataDir);
  if (url === null)
    throw new Refusal(1, `no embedded database is running on ${dataDir}; start it with npm start, or set DATABASE_URL`);
  return url;
}

async function readDatabase(
  connectionString: string,
  scope: Pick<Config, "schemas" | "extraSearchPath">,
): Promise<Catalog> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: CONNECT_MILLISECONDS });
  try {
    await client.connect();
    return await buildCatalog(await parseCatalog(await readCatalog(client, scope)), 1);
  } catch (error) {
    throw new Refusal(1, `the database can not be read: ${reasonOf(error as Error)}`);
  } finally {
    await client.end();
  }
}

/** A name with several addresses fails with one error for each, and no message of its own. */
const reasonOf = (error: Error): string =>
  error instanceof AggregateError ? error.errors.map(({ message }) => message).join("; ") : error.message;

try {
  process.stdout.write(await print(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
}

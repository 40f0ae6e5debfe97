import type pg from "pg";
import { TEXT_SETTINGS } from "../text-settings.ts";
import { findPrimary, PrimaryClient } from "../wire/primary.ts";

const CONNECT_MILLISECONDS = 10_000;

/** Calls back with a connection that is closed afterwards. */
export async function withClient<T>(connectionString: string, callback: (client: pg.Client) => Promise<T>): Promise<T> {
  const failed = (error: Error) => {
    throw new Error(`cannot connect to the database: ${reasonOf(error)}`, { cause: error });
  };
  await findPrimary(connectionString).catch(failed);
  const client = new PrimaryClient({ connectionString, connectionTimeoutMillis: CONNECT_MILLISECONDS });
  await client.connect().catch(failed);
  try {
    await prepareSession(client);
    return await callback(client);
  } finally {
    await client.end();
  }
}

/**
 * Just-in-time compilation is for long statements: PostgreSQL estimates those that read pg_catalog to cost far more than they do, and
 * compiles them for a second to run them for milliseconds.
 */
const OWN_SETTINGS = [...TEXT_SETTINGS, ["jit", "off"], ["idle_session_timeout", "0"]]
  .map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', false)`)
  .join(", ");

/**
 * Gives a direct connection the settings that the statements of the service need. Behind a pooler in transaction mode, where the process
 * id is made up, they would stay on a connection that others use.
 */
export async function prepareSession(client: pg.ClientBase): Promise<void> {
  const { processID } = client as unknown as { processID: number };
  await client.query(`select ${OWN_SETTINGS} where pg_catalog.pg_backend_pid() operator(pg_catalog.=) ${processID}`);
}

/** A host name with several addresses fails with an AggregateError, which has no message itself. */
export function reasonOf(error: Error): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(({ message }) => message))].join("; ")
    : error.message;
}

/** Makes the running instances read the schema again. Many databases have no event trigger that does so. */
export const announceSchema = async (client: pg.ClientBase): Promise<void> =>
  void (await client.query("notify pgrst, 'reload schema'"));

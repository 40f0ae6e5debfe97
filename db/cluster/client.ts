import type pg from "pg";
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
    return await callback(client);
  } finally {
    await client.end();
  }
}

/**
 * Turns off just-in-time compilation, for statements that read pg_catalog on a direct connection. PostgreSQL estimates them to cost
 * far more than they do, and then compiles them for a second to run them for milliseconds. Behind a pooler in transaction mode, the
 * setting would stay on a connection that others use.
 */
export async function withoutJit(client: pg.ClientBase): Promise<void> {
  await client.query("set jit = off");
}

/** A host name with several addresses fails with an AggregateError, which has no message itself. */
function reasonOf(error: Error): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(({ message }) => message))].join("; ")
    : error.message;
}

/** Makes the running instances read the schema again. Many databases have no event trigger that does so. */
export const announceSchema = async (client: pg.ClientBase): Promise<void> =>
  void (await client.query("notify pgrst, 'reload schema'"));

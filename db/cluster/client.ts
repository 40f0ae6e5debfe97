import pg from "pg";

const CONNECT_MILLISECONDS = 10_000;

/** Calls back with a connection that is closed afterwards. */
export async function withClient<T>(connectionString: string, callback: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: CONNECT_MILLISECONDS });
  await client.connect().catch((error: Error) => {
    throw new Error(`cannot connect to the database: ${reasonOf(error)}`, { cause: error });
  });
  try {
    return await callback(client);
  } finally {
    await client.end();
  }
}

/** A host name with several addresses fails with an AggregateError, which has no message itself. */
function reasonOf(error: Error): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(({ message }) => message))].join("; ")
    : error.message;
}

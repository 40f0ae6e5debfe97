import { ask } from "./agreement.ts";
import type { Case } from "./case.ts";
import type { BenchDatabase } from "./database.ts";
import { startProxy } from "./proxy.ts";
import type { BenchOptions } from "./rounds.ts";
import { type Program, startServer } from "./servers.ts";

/** How often one request of a case waits for Postgres after the server has warmed up. */
export type Waits = { readonly case: string; readonly server: string; readonly waits: number };

const COUNTED_REQUESTS = 10;

/** Starts each server behind a proxy that counts, and sends the requests of the cases. */
export async function countWaits(
  programs: readonly Program[],
  database: BenchDatabase,
  cases: readonly Case[],
  { signal, progress }: BenchOptions,
): Promise<Waits[]> {
  const waits: Waits[] = [];
  for (const program of programs) {
    signal.throwIfAborted();
    progress(`counting the database waits of ${program.name}`);
    waits.push(...(await countWaitsOf(program, database, cases)));
    await database.removeWritten();
  }
  return waits;
}

async function countWaitsOf(program: Program, database: BenchDatabase, cases: readonly Case[]): Promise<Waits[]> {
  let waits = 0;
  await using proxy = await startProxy(database, () => (messages) => {
    // Sync, or a simple Query. What is sent together is one wait; some run side by side.
    if (messages.some(({ type }) => type === "S" || type === "Q")) waits++;
  });
  await using server = await startServer(program, proxy.database);
  const counted: Waits[] = [];
  for (const each of cases) {
    for (let n = 0; n < COUNTED_REQUESTS; n++) await ask(server, each, n);
    const before = waits;
    for (let n = 0; n < COUNTED_REQUESTS; n++) await ask(server, each, n);
    counted.push({ case: each.name, server: program.name, waits: (waits - before) / COUNTED_REQUESTS });
  }
  return counted;
}

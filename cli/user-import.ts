import { constants, createReadStream } from "node:fs";
import { access, lstat, rm, stat, writeFile } from "node:fs/promises";
import type pg from "pg";
import { CommandError, inTransaction } from "./command.ts";
import { type DumpContext, isDump, SupabaseDump, sealFactors } from "./supabase-dump.ts";
import { type Entry, type Kind, type Refused, readRow } from "./user-rows.ts";

export type ImportOptions = {
  /** Checks every row in one transaction, which is rolled back. */
  readonly isDryRun: boolean;
  /** The file that gets the refused rows. */
  readonly report: string;
  /** Called with a line about the rows that are done. */
  onProgress(line: string): void;
  /** What the rows of a dump of Supabase need. */
  dumpContext(): Promise<DumpContext>;
};

type Imported = { readonly created: number; readonly known: number; readonly refused: readonly Refused[] };
type Total = Record<Kind | "known" | "refused", number>;

/** Rows of a transaction. */
const BATCH = 500;
const PROGRESS = 10_000;
const ANALYZE = "analyze auth_private.accounts, auth_private.login_emails";

/**
 * Imports the users of a file with a JSON object on each line, or of a dump of Supabase, and returns what came of it. A row is imported
 * once: after an interruption, or when rows were corrected, the same command imports the rest. Throws CommandError if rows were refused;
 * the report says why.
 */
export async function importUsers(client: pg.Client, file: string, options: ImportOptions): Promise<string> {
  const { isDryRun, report, onProgress, dumpContext } = options;
  const size = await sizeOf(file);
  await prepareReport(report, file);
  const total: Total = { users: 0, identities: 0, factors: 0, known: 0, refused: 0 };
  const leftOut = new Map<string, number>();
  let [bytes, done, reported] = [0, 0, 0];

  const run = async (entries: readonly Entry[], refused: readonly Refused[]) => {
    const imported = await (isDryRun ? send(client, entries) : inTransaction(client, () => send(client, entries)));
    const all = [...refused, ...imported.refused].sort((one, other) => one.line - other.line);
    if (entries.length > 0) total[entries[0]!.kind] += imported.created;
    total.known += imported.known;
    for (const { reason, isLeftOut } of all) {
      if (isLeftOut) leftOut.set(reason, (leftOut.get(reason) ?? 0) + 1);
      else total.refused++;
    }
    const text = all.map((each) => `${JSON.stringify(each)}\n`).join("");
    if (text !== "") await writeFile(report, text, { flag: "a", mode: 0o600 });
  };

  let batches = 0;
  /** The plans that Postgres keeps for a table of a few rows read all of it. They are made again while the tables grow. */
  const renewPlans = async () => {
    batches++;
    if (Number.isInteger(Math.log2(batches))) await client.query(ANALYZE);
  };

  if (isDryRun) await client.query("begin");
  let [entries, refused]: [Entry[], Refused[]] = [[], []];
  const flush = async () => {
    await run(entries, refused);
    await renewPlans();
    [entries, refused] = [[], []];
  };
  let dump: SupabaseDump | null | undefined;
  for await (const text of linesOf(file)) {
    bytes += Buffer.byteLength(text) + 1;
    done++;
    if (text.trim() === "") continue;
    if (dump === undefined) dump = isDump(text) ? new SupabaseDump(await dumpContext()) : null;
    for (const read of dump?.read(text, done) ?? [readRow(text, done)]) {
      // What belongs to accounts is sent after them.
      if ("kind" in read && entries.length > 0 && entries[0]!.kind !== read.kind) await flush();
      if ("kind" in read) entries.push(read);
      else refused.push(read);
    }
    if (entries.length + refused.length >= BATCH) await flush();
    if (done - reported < PROGRESS) continue;
    reported = done;
    onProgress(`${done} rows, ${Math.min(100, Math.floor((100 * bytes) / size))} %`);
  }
  await run(entries, refused);
  dump?.end();
  if (isDryRun) await client.query("rollback");
  return outcome(total, leftOut, options);
}

/** The lines of a file. The reader of Node would end one at U+2028 too, which JSON and dumps contain as it is. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(file, "utf8")) {
    const lines = `${rest}${chunk}`.replace(/^\ufeff/, "").split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield line.replace(/\r$/, "");
  }
  if (rest !== "") yield rest;
}

async function sizeOf(file: string): Promise<number> {
  try {
    await access(file, constants.R_OK);
    const found = await stat(file);
    if (found.isDirectory()) throw new Error("it is a folder");
    return found.size;
  } catch (error) {
    throw new CommandError(1, `cannot read ${file}: ${(error as Error).message}`);
  }
}

/** Deletes an earlier report. It must be possible to write one before a row is imported. */
async function prepareReport(report: string, file: string): Promise<void> {
  const [earlier, imported] = [await lstat(report).catch(() => null), await stat(file)];
  if (earlier?.ino === imported.ino && earlier.dev === imported.dev)
    throw new CommandError(2, "--report must name another file than the import");
  if (earlier !== null && !earlier.isFile() && !earlier.isSymbolicLink())
    throw new CommandError(2, `--report must name a file, and ${report} is none`);
  try {
    await rm(report, { force: true });
    await writeFile(report, "", { mode: 0o600, flag: "wx" });
    await rm(report);
  } catch (error) {
    throw new CommandError(1, `cannot write ${report}: ${(error as Error).message}; name another file with --report`);
  }
}

async function send(client: pg.Client, entries: readonly Entry[]): Promise<Imported> {
  if (entries.length === 0) return { created: 0, known: 0, refused: [] };
  const sealed = entries[0]!.kind === "factors" ? await sealFactors(client, entries) : entries;
  const texts = sealed.map((entry) => JSON.stringify(entry));
  const { rows } = await client.query<{ imported: Imported }>(
    "select auth_private.import_users($1::jsonb[]) as imported",
    [texts],
  );
  return rows[0]!.imported;
}

function outcome(total: Total, leftOut: ReadonlyMap<string, number>, { isDryRun, report }: ImportOptions): string {
  const { users, identities, factors, known, refused } = total;
  const counts = [
    isDryRun ? `${users} users can be imported` : `${users} users imported`,
    ...(identities > 0 ? [`${identities} identities`] : []),
    ...(factors > 0 ? [`${factors} second factors`] : []),
    ...(known > 0 ? [`${known} imported before`] : []),
    ...(refused > 0 ? [`${refused} rows refused`] : []),
  ];
  const reasons = [...leftOut].map(([reason, count]) => `left out: ${count} × ${reason}\n`);
  const text = `${counts.join(", ")}${isDryRun ? "; nothing was changed" : ""}\n${reasons.join("")}`;
  if (refused > 0) throw new CommandError(1, `${report} has the line and the reason of each refused row`, text);
  return text;
}

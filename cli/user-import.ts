import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { rm, stat, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import type pg from "pg";
import { z } from "zod";
import {
  loginEmailFault,
  normalizedEmail,
  normalizedUsername,
  usernameFault,
} from "../rest-gateway/auth/login-names.ts";
import { storedForm, UnusableHash } from "../rest-gateway/auth/password-hashes.ts";
import { CommandError, inTransaction } from "./command.ts";

export type ImportOptions = {
  /** Checks every row in one transaction, which is rolled back. */
  readonly isDryRun: boolean;
  /** The file that gets the refused rows. */
  readonly report: string;
  /** Called with a line about the rows that are done. */
  onProgress(line: string): void;
};

/** A user in the file. Further fields are for the hook `new_user` of the application. */
const Row = z.looseObject({
  id: z.union([z.string(), z.int()], { error: "must be a text or a number" }).transform(String).nullish(),
  email: z
    .string({ error: "is required" })
    .check(({ value, issues }) => addFault(issues, value, loginEmailFault(value))),
  name: z.string({ error: "is required" }),
  username: z
    .string({ error: "must be a text" })
    .overwrite(normalizedUsername)
    .check(({ value, issues }) => addFault(issues, value, usernameFault(value)))
    .nullish(),
  password_hash: z.string({ error: "must be a text" }).nullish(),
  email_confirmed: z.boolean({ error: "must be true or false" }).nullish(),
  role: z.enum(["authenticated", "admin"], { error: "must be authenticated or admin" }).nullish(),
  disabled: z.boolean({ error: "must be true or false" }).nullish(),
  created_at: z.iso
    .datetime({ offset: true, error: "must be a time with a time zone, such as 2024-01-31T12:00:00Z" })
    .nullish(),
});

type Issues = { push(issue: { readonly code: "custom"; readonly input: unknown; readonly message: string }): unknown };

function addFault(issues: Issues, input: string, message: string | null): void {
  if (message !== null) issues.push({ code: "custom", input, message });
}

/** A row as auth_private.import_users takes it. */
type Entry = { readonly line: number; readonly fields: { readonly email: string } };
type Refused = { readonly line: number; readonly email: string | null; readonly reason: string };
type Imported = { readonly created: number; readonly known: number; readonly refused: readonly Refused[] };

/** Rows of a transaction. */
const BATCH = 500;
const PROGRESS = 10_000;
const ANALYZE = "analyze auth_private.accounts, auth_private.login_emails";

/**
 * Imports the users of a file with a JSON object on each line, and returns what came of it. A row is imported once: after an
 * interruption, or when rows were corrected, the same command imports the rest. Throws CommandError if rows were refused; the report
 * says why.
 */
export async function importUsers(client: pg.Client, file: string, options: ImportOptions): Promise<string> {
  const { isDryRun, report, onProgress } = options;
  const size = await sizeOf(file);
  await rm(report, { force: true });
  const total = { created: 0, known: 0, refused: 0 };
  let [bytes, done] = [0, 0];

  const run = async (entries: readonly Entry[], refused: readonly Refused[]) => {
    const imported = await (isDryRun ? send(client, entries) : inTransaction(client, () => send(client, entries)));
    const all = [...refused, ...imported.refused].sort((one, other) => one.line - other.line);
    total.created += imported.created;
    total.known += imported.known;
    total.refused += all.length;
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
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY })) {
    bytes += Buffer.byteLength(text) + 1;
    done++;
    if (text.trim() === "") continue;
    const read = readRow(text, done);
    if ("reason" in read) refused.push(read);
    else entries.push(read);
    if (entries.length + refused.length < BATCH) continue;
    await run(entries, refused);
    await renewPlans();
    [entries, refused] = [[], []];
    if (done % PROGRESS === 0) onProgress(`${done} rows, ${Math.min(100, Math.floor((100 * bytes) / size))} %`);
  }
  await run(entries, refused);
  if (isDryRun) await client.query("rollback");
  return outcome(total, options);
}

async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    throw new CommandError(1, `cannot read ${file}: ${(error as Error).message}`);
  }
}

async function send(client: pg.Client, entries: readonly Entry[]): Promise<Imported> {
  if (entries.length === 0) return { created: 0, known: 0, refused: [] };
  const texts = entries.map((entry) => JSON.stringify(entry));
  const { rows } = await client.query<{ imported: Imported }>(
    "select auth_private.import_users($1::jsonb[]) as imported",
    [texts],
  );
  return rows[0]!.imported;
}

/** Reads a line of the file. The reason names every fault of the row. */
function readRow(text: string, line: number): Entry | Refused {
  const json = parse(text);
  if (json === null) return { line, email: null, reason: "not a JSON object: each line must be one" };
  const { success, data, error } = Row.safeParse(json);
  const email = typeof json.email === "string" ? json.email : null;
  if (!success)
    return { line, email, reason: error.issues.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ") };
  try {
    return entryOf(data, line, text);
  } catch (fault) {
    if (fault instanceof UnusableHash) return { line, email, reason: fault.message };
    throw fault;
  }
}

function parse(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" && json !== null && !Array.isArray(json) ? { ...json } : null;
  } catch {
    return null;
  }
}

function entryOf(row: z.infer<typeof Row>, line: number, text: string): Entry & Readonly<Record<string, unknown>> {
  const { id, username, password_hash, email_confirmed, role, disabled, created_at, ...fields } = row;
  const now = new Date().toISOString();
  return {
    line,
    id: id ?? null,
    fields: { ...fields, email: normalizedEmail(fields.email) },
    account: {
      username: username ?? null,
      passwordHash: password_hash ? storedForm(password_hash) : null,
      role,
      disabledAt: disabled ? now : null,
      createdAt: created_at,
      emailConfirmedAt: email_confirmed ? (created_at ?? now) : null,
      importKey: createHash("sha256").update(text.trim()).digest("hex").slice(0, 32),
    },
  };
}

type Total = { readonly created: number; readonly known: number; readonly refused: number };

function outcome({ created, known, refused }: Total, { isDryRun, report }: ImportOptions): string {
  const counts = [
    isDryRun ? `${created} users can be imported` : `${created} users imported`,
    ...(known > 0 ? [`${known} imported before`] : []),
    ...(refused > 0 ? [`${refused} rows refused`] : []),
  ];
  const text = `${counts.join(", ")}${isDryRun ? "; nothing was changed" : ""}\n`;
  if (refused > 0) throw new CommandError(1, `${report} has the line and the reason of each refused row`, text);
  return text;
}

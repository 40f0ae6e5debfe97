import { createHash } from "node:crypto";
import { z } from "zod";
import {
  loginEmailFault,
  normalizedEmail,
  normalizedUsername,
  usernameFault,
} from "../rest-gateway/auth/login-names.ts";
import { storedForm, UnusableHash } from "../rest-gateway/auth/password-hashes.ts";

/** What is imported, in the order of a file: what belongs to an account follows it. */
export type Kind = "users" | "identities" | "factors";
/** A row as auth_private.import_users takes it. */
export type Entry = { readonly kind: Kind; readonly line: number } & Readonly<Record<string, unknown>>;
export type UserEntry = Entry & { readonly account: Readonly<Record<string, unknown>> };
/** A row, or what of it, is not imported. `isLeftOut`: because the service has no such thing, and not because the row is wrong. */
export type Refused = {
  readonly line: number;
  readonly email: string | null;
  readonly reason: string;
  readonly isLeftOut?: true;
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

/** Reads a line with a JSON object. The reason names every fault of the row. */
export function readRow(text: string, line: number): UserEntry | Refused {
  const json = parseObject(text);
  if (json === null) return { line, email: null, reason: "not a JSON object: each line must be one" };
  return readUser(json, line, keyOf(text.trim()));
}

/** The first half of a SHA-256, as a UUID. */
export const keyOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32);

/** A user by the columns of a row. A row with the same key is imported once. */
export function readUser(
  json: Readonly<Record<string, unknown>>,
  line: number,
  importKey: string,
): UserEntry | Refused {
  const { success, data, error } = Row.safeParse(json);
  const email = typeof json.email === "string" ? json.email : null;
  if (!success)
    return { line, email, reason: error.issues.map(({ path, message }) => `${path.join(".")} ${message}`).join("; ") };
  try {
    return entryOf(data, line, importKey);
  } catch (fault) {
    if (fault instanceof UnusableHash) return { line, email, reason: fault.message };
    throw fault;
  }
}

export function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const json: unknown = JSON.parse(text);
    return typeof json === "object" && json !== null && !Array.isArray(json) ? { ...json } : null;
  } catch {
    return null;
  }
}

function entryOf(row: z.infer<typeof Row>, line: number, importKey: string): UserEntry {
  const { id, username, password_hash, email_confirmed, role, disabled, created_at, ...fields } = row;
  const now = new Date().toISOString();
  return {
    kind: "users",
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
      importKey,
    },
  };
}

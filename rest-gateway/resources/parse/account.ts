import { passwordFaults } from "../../auth/passwords.ts";
import { invalidBody } from "../problem.ts";
import type { Style } from "../request.ts";

/** What makes a new user somebody who can sign in. */
export type AccountInput = { readonly username: string | null; readonly password: string };

/** Fields of a body that are of the account: written, and never read. */
export const ACCOUNT_FIELDS = ["password", "username"];
export const MAX_USERNAME = 254;

/** Throws RestError for a change that brings a password: to pass it over would make its sender believe that it was set. */
export function refusePassword(body: object, { version }: Style): void {
  if (!Object.hasOwn(body, "password")) return;
  throw invalidBody([{ field: "password", message: "password is not changed here: use POST /auth/password" }], version);
}

/** Null for a body without a password. Throws RestError for one that breaks the rules. */
export function parseAccount(body: object, { version }: Style): AccountInput | null {
  const { password, username = null } = body as Readonly<Record<string, unknown>>;
  if (password === undefined) return null;
  if (typeof password !== "string") {
    throw invalidBody([{ field: "password", message: "password must be a text" }], version);
  }
  const faults = passwordFaults(password).map((message) => ({ field: "password", message }));
  if (username !== null && !isUsername(username)) {
    faults.push({
      field: "username",
      message: `username must be a text of 1 to ${MAX_USERNAME} characters without blanks`,
    });
  }
  if (faults.length > 0) throw invalidBody(faults, version);
  return { password, username: username as string | null };
}

const isUsername = (value: unknown) =>
  typeof value === "string" && value.length <= MAX_USERNAME && /^[^\s\p{C}]+$/u.test(value);

import { passwordFaults } from "../../auth/passwords.ts";
import type { Fault } from "../../conventions/problem.ts";
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

/** What a body says of the account; `input` is null without a password, and where there are faults. */
export type AccountRead = {
  readonly faults: readonly Fault[];
  readonly isMissing: boolean;
  readonly input: AccountInput | null;
};

export const NO_ACCOUNT: AccountRead = { faults: [], isMissing: false, input: null };

export function readAccount(body: unknown, isRequired: boolean): AccountRead {
  const { password, username = null } = (typeof body === "object" && body !== null ? body : {}) as JsonObject;
  if (password === undefined && !isRequired) return NO_ACCOUNT;
  if (password === undefined) return { ...NO_ACCOUNT, faults: [faultOf("is required")], isMissing: true };
  if (typeof password !== "string") return { ...NO_ACCOUNT, faults: [faultOf("must be a text")] };
  const faults = passwordFaults(password).map((message) => ({ field: "password", message }));
  if (username !== null && !isUsername(username)) {
    faults.push({
      field: "username",
      message: `username must be a text of 1 to ${MAX_USERNAME} characters without blanks`,
    });
  }
  if (faults.length > 0) return { ...NO_ACCOUNT, faults };
  return { ...NO_ACCOUNT, input: { password, username: username as string | null } };
}

type JsonObject = Readonly<Record<string, unknown>>;

const faultOf = (what: string): Fault => ({ field: "password", message: `password ${what}` });

const isUsername = (value: unknown) =>
  typeof value === "string" && value.length <= MAX_USERNAME && /^[^\s\p{C}]+$/u.test(value);

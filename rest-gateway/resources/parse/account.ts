import { passwordFaults } from "../../auth/passwords.ts";
import { usernameFault } from "../../auth/registration.ts";
import type { Fault } from "../../conventions/problem.ts";
import { invalidBody } from "../problem.ts";
import type { Style } from "../request.ts";
import { ACCOUNT_FIELDS } from "../resource.ts";
import { faultOfText } from "./record.ts";

/** What makes a new user somebody who can sign in. */
export type AccountInput = { readonly username: string | null; readonly password: string };

const UNCHANGED: Readonly<Record<string, string>> = {
  password: "password is not changed here: use POST /auth/password",
  username: "username is not changed here",
};

/** Throws RestError for a change that brings one of them: to pass it over would make its sender believe that it was set. */
export function refuseAccount(body: object, { version }: Style): void {
  const given = ACCOUNT_FIELDS.filter((field) => Object.hasOwn(body, field));
  if (given.length === 0) return;
  throw invalidBody(
    given.map((field) => ({ field, message: UNCHANGED[field]! })),
    version,
  );
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
  if (password === undefined && isRequired) return { ...refused("password", "is required"), isMissing: true };
  if (password === undefined) return username === null ? NO_ACCOUNT : refused("username", "needs a password beside it");
  if (typeof password !== "string") return refused("password", "must be a text");
  const faults = passwordFaults(password).map((message) => ({ field: "password", message }));
  const fault = username === null ? null : (faultOfText(username) ?? usernameFault(username as string));
  if (fault !== null) faults.push(faultOf("username", fault));
  if (faults.length > 0) return { ...NO_ACCOUNT, faults };
  return { ...NO_ACCOUNT, input: { password, username: username as string | null } };
}

type JsonObject = Readonly<Record<string, unknown>>;

const refused = (field: string, what: string): AccountRead => ({ ...NO_ACCOUNT, faults: [faultOf(field, what)] });

const faultOf = (field: string, what: string) => ({ field, message: `${field} ${what}` });

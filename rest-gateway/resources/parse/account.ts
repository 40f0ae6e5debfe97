import { passwordFaults } from "../../auth/passwords.ts";
import { usernameFault } from "../../auth/registration.ts";
import type { Fault } from "../../conventions/problem.ts";
import { invalidBody } from "../problem.ts";
import type { Style } from "../request.ts";
import { ACCOUNT_FIELDS } from "../resource.ts";
import { faultOfText } from "./record.ts";

/** The credentials of a new user. */
export type AccountInput = { readonly username: string | null; readonly password: string };

const UNCHANGED: Readonly<Record<string, string>> = {
  password: "password can not be changed here: use POST /auth/password",
  username: "username can not be changed",
};

/** Throws RestError for a change of an account field: if it were ignored, the client would believe that it was set. */
export function refuseAccount(body: object, { version }: Style): void {
  const given = ACCOUNT_FIELDS.filter((field) => Object.hasOwn(body, field));
  if (given.length === 0) return;
  throw invalidBody(
    given.map((field) => ({ field, message: UNCHANGED[field]! })),
    version,
  );
}

/** The account fields of a body. `input` is null without a password, and when there are faults. */
export type AccountRead = {
  readonly faults: readonly Fault[];
  readonly isMissing: boolean;
  readonly input: AccountInput | null;
};

export const NO_ACCOUNT: AccountRead = { faults: [], isMissing: false, input: null };

export function readAccount(body: unknown, isRequired: boolean): AccountRead {
  const { password, username = null } = (typeof body === "object" && body !== null ? body : {}) as JsonObject;
  if (password === undefined && isRequired) return { ...refused("password", "is required"), isMissing: true };
  if (password === undefined) return username === null ? NO_ACCOUNT : refused("username", "requires a password");
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

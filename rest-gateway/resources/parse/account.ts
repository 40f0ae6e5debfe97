import type { Fault } from "../../../problems/problem.ts";
import { AccountBody, faultsOf } from "../../auth/bodies.ts";
import { loginEmailFault } from "../../auth/login-names.ts";
import type { PasswordRules } from "../../auth/passwords.ts";
import { invalidBody } from "../problem.ts";
import type { AccountInput, Style } from "../request.ts";
import { ACCOUNT_FIELDS } from "../resource.ts";

const UNCHANGED: Readonly<Record<string, string>> = {
  password: "password cannot be changed here: use POST /auth/password",
  username: "username cannot be changed",
};

/** Throws Problem for a change of an account field: if it were ignored, the client would believe that it was set. */
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

/** Without a password a user has no account, unless it is required. */
export function readAccount(body: unknown, isRequired: boolean, rules: PasswordRules): AccountRead {
  const { email, password, username = null } = (typeof body === "object" && body !== null ? body : {}) as JsonObject;
  if (password === undefined && !isRequired) {
    return username === null ? NO_ACCOUNT : { ...NO_ACCOUNT, faults: [PASSWORD_REQUIRED] };
  }
  const { data, error } = AccountBody.safeParse({ password, username });
  const found = error?.issues.flatMap((issue) => faultsOf(issue)) ?? [];
  const missing = (fault: Fault): Fault =>
    fault.field === "password" && password === undefined ? { ...fault, code: "MISSING_FIELD" } : fault;
  const broken = typeof password === "string" ? rules.faults(password) : [];
  const faults = [
    ...broken.map((message): Fault => ({ field: "password", message })),
    ...found.map(missing),
    ...faultsOfEmail(email),
  ];
  const input = data === undefined || faults.length > 0 ? null : { username: null, ...data };
  return { faults, isMissing: password === undefined, input };
}

/** The further rule for a login e-mail. */
function faultsOfEmail(email: unknown): readonly Fault[] {
  const fault = typeof email === "string" ? loginEmailFault(email) : null;
  return fault === null ? [] : [{ field: "email", message: `email ${fault}` }];
}

type JsonObject = Readonly<Record<string, unknown>>;

const PASSWORD_REQUIRED: Fault = { field: "username", message: "username requires a password" };

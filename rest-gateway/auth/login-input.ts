import { type Fault, RestError } from "../conventions/problem.ts";
import { MAX_PASSWORD } from "./passwords.ts";
import type { ChallengeInput, LoginInput } from "./sign-in.ts";

const MAX_USERNAME = 254;
const MAX_CODE = 20;
/** Characters of a token; ours have some hundreds. */
const MAX_TOKEN = 4096;

/** `{ username, password, code? }`. Throws RestError for what can't be credentials. */
export function parseLogin(body: unknown): LoginInput {
  const { code = null } = objectOf(body);
  const { username, password } = parseTexts(body, { username: MAX_USERNAME, password: MAX_PASSWORD });
  if (code !== null && !isText(code, MAX_CODE)) throw badFields([{ field: "code", message: "code must be a text" }]);
  return { username, password, code };
}

/** The same, or `{ challenge, code }`. */
export const parseSignIn = (body: unknown): LoginInput | ChallengeInput =>
  objectOf(body).challenge === undefined
    ? parseLogin(body)
    : parseTexts(body, { challenge: MAX_TOKEN, code: MAX_CODE });

/** `{ refreshToken }` */
export const parseRefresh = (body: unknown): string => parseTexts(body, { refreshToken: MAX_TOKEN }).refreshToken;

/** `{ oldPassword, newPassword }`; whether the new one is good enough is not looked at. */
export const parseNewPassword = (body: unknown) =>
  parseTexts(body, { oldPassword: MAX_PASSWORD, newPassword: Number.POSITIVE_INFINITY });

/** These fields, each a text of as many characters at most. Throws RestError that names every fault. */
function parseTexts<Name extends string>(body: unknown, limits: Record<Name, number>): Record<Name, string> {
  const object = objectOf(body);
  const names = Object.keys(limits) as Name[];
  const faults = names.flatMap((field): Fault[] => {
    if (object[field] === undefined) return [{ field, message: `${field} is required` }];
    const most = limits[field] === Number.POSITIVE_INFINITY ? "" : ` of ${limits[field]} characters at most`;
    return isText(object[field], limits[field])
      ? []
      : [{ field, message: `${field} must be a text${most}, and not empty` }];
  });
  if (faults.length > 0)
    throw badFields(
      faults,
      names.some((name) => object[name] === undefined),
    );
  return Object.fromEntries(names.map((name) => [name, object[name]])) as Record<Name, string>;
}

export function objectOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw new RestError({ status: 400, code: "VALIDATION_ERROR", message: "the body must be a JSON object" });
}

/** What is wrong with fields of a body, all at once. */
export function badFields(faults: readonly Fault[], isMissing = false): RestError {
  const message = faults.map(({ message }) => message).join("; ");
  return new RestError({ status: 400, code: isMissing ? "MISSING_FIELD" : "VALIDATION_ERROR", message, faults });
}

const isText = (value: unknown, max: number): value is string =>
  typeof value === "string" && value !== "" && value.length <= max && value.isWellFormed() && !value.includes("\0");

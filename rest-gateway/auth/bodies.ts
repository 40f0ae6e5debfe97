import type { Fault } from "../conventions/problem.ts";
import { objectOf } from "./body.ts";
import { MAX_CODE, parseCode } from "./code-input.ts";
import { MAX_PASSWORD } from "./passwords.ts";
import { badFields } from "./problem.ts";
import type { ChallengeInput, LoginInput } from "./sign-in.ts";

/** Of a username or an e-mail. */
const MAX_LOGIN = 254;
/** Characters of a token; ours have some hundreds. */
const MAX_TOKEN = 4096;

/** `{ username, password, code? }`. Throws RestError for what can't be credentials. */
export function parseLogin(body: unknown): LoginInput {
  const { code = null } = objectOf(body);
  const { username, password } = parseTexts(body, { username: MAX_LOGIN, password: MAX_PASSWORD });
  return { username, password, code: code === null ? null : parseCode(code) };
}

/** The same, or `{ challenge, code }`. */
export function parseSignIn(body: unknown): LoginInput | ChallengeInput {
  if (objectOf(body).challenge === undefined) return parseLogin(body);
  const { challenge, code } = parseTexts(body, { challenge: MAX_TOKEN, code: MAX_CODE });
  return { challenge, code: parseCode(code) };
}

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

const isText = (value: unknown, max: number): value is string =>
  typeof value === "string" && value !== "" && value.length <= max && value.isWellFormed() && !value.includes("\0");

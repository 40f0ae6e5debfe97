import { RestError } from "../conventions/problem.ts";
import { MAX_PASSWORD } from "./passwords.ts";
import type { LoginInput } from "./sign-in.ts";

const MAX_USERNAME = 254;
const MAX_CODE = 20;

/** `{ username, password, code? }`. Throws RestError for what can't be credentials. */
export function parseLogin(body: unknown): LoginInput {
  const isObject = typeof body === "object" && body !== null;
  const { username, password, code = null } = (isObject ? body : {}) as Record<string, unknown>;
  if (!isText(username, MAX_USERNAME) || !isText(password, MAX_PASSWORD)) {
    throw new RestError({ status: 400, code: "VALIDATION_ERROR", message: "username and password are required" });
  }
  if (code !== null && !isText(code, MAX_CODE)) {
    throw new RestError({ status: 400, code: "VALIDATION_ERROR", message: "code must be a text" });
  }
  return { username, password, code };
}

const isText = (value: unknown, max: number): value is string =>
  typeof value === "string" && value !== "" && value.length <= max && value.isWellFormed() && !value.includes("\0");

import type { Request } from "express";
import { type BodyLimits, readJson } from "../../http/body.ts";
import { RestError } from "../conventions/problem.ts";
import { badFields } from "./login-input.ts";

const MAX_CODE = 20;

export type Confirmation = { readonly password: string; readonly code: string | null };

/** `?code=123456`, or `{ code }`, which stays out of the logs of proxies. Rejects with RestError when there is none. */
export async function readCode(request: Request, limits: BodyLimits): Promise<string> {
  const { code } = request.query;
  if (code !== undefined) return checkedCode(code);
  const hasBody = request.headers["content-type"] !== undefined;
  return checkedCode(hasBody ? fieldsOf(await readJson(request, limits)).code : undefined);
}

/** `{ password, code? }`; rejects with RestError for what can't be them. */
export async function readConfirmation(request: Request, limits: BodyLimits): Promise<Confirmation> {
  const { password, code = null } = fieldsOf(await readJson(request, limits));
  if (password === undefined) throw missing("password", "password is required");
  if (typeof password !== "string") throw badFields([{ field: "password", message: "password must be a text" }]);
  return { password, code: code === null ? null : checkedCode(code) };
}

function fieldsOf(body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw new RestError({ status: 400, code: "VALIDATION_ERROR", message: "the body must be a JSON object" });
}

function checkedCode(code: unknown): string {
  if (code === undefined) throw missing("code", "code is required: send it as ?code=… or as {code}");
  if (typeof code === "string" && code.length <= MAX_CODE && code.isWellFormed()) return code;
  throw badFields([{ field: "code", message: `code must be a text of at most ${MAX_CODE} characters` }]);
}

const missing = (field: string, message: string) => badFields([{ field, message }], true);

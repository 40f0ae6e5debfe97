import type { Request } from "express";
import type { BodyLimits } from "../../http/body.ts";
import { objectOf, readBody } from "./body.ts";
import { parseAppCode, parseCode } from "./code-input.ts";
import { badFields, missingField } from "./problem.ts";

export type Confirmation = { readonly password: string; readonly code: string | null };

/** `?code=123456`, or `{ code }`, which stays out of the logs of proxies. Rejects with RestError for what can't be one. */
export async function readCode(request: Request, limits: BodyLimits): Promise<string> {
  const hasBody = request.query.code === undefined && request.headers["content-type"] !== undefined;
  const { code } = hasBody ? objectOf(await readBody(request, limits)) : request.query;
  if (code === undefined) throw missingField("code", "code is required: send it as ?code=… or as {code}");
  return parseAppCode(code);
}

/** `{ password, code? }`; rejects with RestError for what can't be them. */
export async function readConfirmation(request: Request, limits: BodyLimits): Promise<Confirmation> {
  const { password, code = null } = objectOf(await readBody(request, limits));
  if (password === undefined) throw missingField("password");
  if (typeof password !== "string") throw badFields([{ field: "password", message: "password must be a text" }]);
  return { password, code: code === null ? null : parseCode(code) };
}

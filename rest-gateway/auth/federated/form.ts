import type { IncomingMessage } from "node:http";
import { ApiError } from "../../../db/errors.ts";
import { readBytes } from "../../../http/body.ts";

/** Bytes of a form. A SAML response has at most 96 KiB, in base64 whose `+` and `=` are escaped. */
const MAX_BYTES = 196_608;

/** Reads the body of a form. Rejects with ApiError: 413 for a larger one, 415 for another media type. */
export async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
    const message = "the body must be sent as Content-Type: application/x-www-form-urlencoded";
    throw new ApiError({ status: 415, code: "VALIDATION_ERROR", message });
  }
  return new URLSearchParams((await readBytes(request, MAX_BYTES)).toString());
}

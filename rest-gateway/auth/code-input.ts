import { isBackupCode } from "./backup-codes.ts";
import { badFields } from "./problem.ts";
import { isAppCode } from "./totp.ts";

/** Characters, with the spaces and dashes that people type. */
export const MAX_CODE = 20;

/** A code of the app or of the list. Throws RestError for what can't be one: to send it is no attempt. */
export function parseCode(code: unknown): string {
  if (isShort(code) && (isAppCode(code) || isBackupCode(code))) return code;
  throw noCode("code must be the 6 digits that the app shows, or a backup code");
}

/** The same where there are no backup codes yet. */
export function parseAppCode(code: unknown): string {
  if (isShort(code) && isAppCode(code)) return code;
  throw noCode("code must be the 6 digits that the app shows");
}

const isShort = (code: unknown): code is string => typeof code === "string" && code.length <= MAX_CODE;

const noCode = (message: string) => badFields([{ field: "code", message }]);

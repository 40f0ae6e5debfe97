import type { UserIdType } from "../config/modules.ts";
import { failedClaim } from "./verified-tokens.ts";

/** What can be an id of each type. */
const USER_IDS: Readonly<Record<UserIdType, RegExp>> = {
  uuid: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  bigint: /^[1-9][0-9]{0,17}$/,
  integer: /^[1-9][0-9]{0,8}$/,
  text: /^\S{1,200}$/,
};

/** Throws TokenError for a subject that no user of the database can have: its functions could not read it. */
export function requireUserId(subject: unknown, type: UserIdType | null): void {
  if (typeof subject === "string" && USER_IDS[type ?? "text"].test(subject)) return;
  throw failedClaim(
    `the access token is not of a user of this service${type === null ? "" : `, whose ids are ${type}`}`,
  );
}

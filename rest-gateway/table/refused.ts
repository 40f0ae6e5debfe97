import { restRefusal } from "../conventions/refused.ts";
import type { RefusedError } from "../principal/refused.ts";
import { REFUSALS, TableError } from "./problem.ts";

/** What the table interface says to credentials that it does not take: its own words for those that its clients know. */
export function tableRefusal(error: RefusedError): Error {
  switch (error.reason) {
    case "no key":
      return REFUSALS.noApiKey();
    case "bad key":
    case "expired key":
      return REFUSALS.badApiKey();
    case "bad token":
    case "revoked token":
    case "unreadable":
      return REFUSALS.badToken();
    case "expired token":
      return REFUSALS.expiredToken();
    case "disagreement":
      return REFUSALS.disagreeingCredentials();
    case "service key in browser":
      return REFUSALS.serviceKeyInBrowser();
    case "anonymous off":
      return REFUSALS.anonymousOff();
    default:
      return asTableError(error);
  }
}

/** Codes of PostgREST for what it has no word for, by status. */
const CODES: Readonly<Record<number, string>> = { 401: "PGRST301", 403: "42501", 429: "PT429", 503: "PGRST000" };

function asTableError(error: RefusedError): TableError {
  const { status, message, headers } = restRefusal(error).problem;
  return new TableError({ status, code: CODES[status]!, message, ...(headers && { headers }) });
}

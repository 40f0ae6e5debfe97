import type { RefusalReason, RefusedError } from "../../identity/refused.ts";
import { restRefusal } from "../conventions/problem.ts";
import {
  anonymousOff,
  badApiKey,
  badToken,
  disagreeingCredentials,
  expiredToken,
  noApiKey,
  serviceKeyInBrowser,
  TableError,
  toTableProblem,
} from "./problem.ts";

/** The refusals for which PostgREST has an error. */
const TABLE_ERRORS: Readonly<Partial<Record<RefusalReason, () => TableError>>> = {
  "no key": noApiKey,
  "bad key": badApiKey,
  "expired key": badApiKey,
  "bad token": badToken,
  "revoked token": badToken,
  unreadable: badToken,
  "expired token": expiredToken,
  disagreement: disagreeingCredentials,
  "service key in browser": serviceKeyInBrowser,
  "anonymous off": anonymousOff,
};

/** The error for credentials that are refused. */
export function tableRefusal(error: RefusedError): TableError {
  const own = TABLE_ERRORS[error.reason];
  return own ? own() : new TableError(toTableProblem(restRefusal(error).problem));
}

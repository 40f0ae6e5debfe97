import type { RefusalReason, RefusedError } from "../../identity/refused.ts";
import { restRefusal } from "../conventions/refused.ts";
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

/** The table interface's own words, for what its clients know. */
const OWN_WORDS: Readonly<Partial<Record<RefusalReason, () => TableError>>> = {
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

/** What the table interface says to credentials that it does not take. */
export function tableRefusal(error: RefusedError): TableError {
  const own = OWN_WORDS[error.reason];
  return own ? own() : new TableError(toTableProblem(restRefusal(error).problem));
}

import { REASONS } from "../problems/reasons.ts";
import { chosenStatus, ownErrorIn, raisedObject } from "./own-errors.ts";
import type { DatabaseErrorLike } from "./sqlstates.ts";
import { reasonOf, statusOf } from "./sqlstates.ts";

/** The server cannot answer; which of its limits was reached is not said, except a limit on temporary files (53400). */
const UNAVAILABLE = /^(08|53(?!400)|57P)/;

/** What a client may read of an error of the database that its request or subscription has met; null if the error is masked. */
export function clientMessage({ code = "", message }: DatabaseErrorLike): string | null {
  if (code === "PGRST") return raisedObject(message)?.message ?? null;
  if (reasonOf(code) === null && statusOf(code) === 500 && chosenStatus(code) === null) return null;
  return UNAVAILABLE.test(code) ? REASONS["database unavailable"][2] : message;
}

/** The same for a subscriber, who gets no more than a message: `You are not a member (DENID; hint: ask)` */
export function messageForSubscriber(error: DatabaseErrorLike): string {
  const message = clientMessage(error) ?? REASONS["internal error"][2];
  const own = ownErrorIn(error);
  if (own === null) return message;
  const { code, detail, hint } = own;
  return `${message} (${[code, detail && `detail: ${detail}`, hint && `hint: ${hint}`].filter(Boolean).join("; ")})`;
}

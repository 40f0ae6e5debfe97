import type { Caller } from "../../db/caller.ts";
import type { Exchange as HttpExchange } from "../../http/exchange.ts";
import type { Target } from "./prepare.ts";
import type { Preferences, ResourceRequest } from "./request.ts";

/** One request and what is known of it so far; an error is answered with what is known when it is thrown. */
export type Exchange = HttpExchange & {
  readonly preferences: Preferences;
  target: Target | null;
  caller: Caller | null;
  parsed: ResourceRequest | null;
  /** Something was written already: the request must not be repeated. */
  isWritten: boolean;
};

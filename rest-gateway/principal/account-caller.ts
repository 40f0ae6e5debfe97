import type { Caller } from "../../db/caller.ts";
import type { Account } from "../auth/store.ts";

/** The claims of a token that the account would have been given. */
export const callerOfAccount = ({ id, name, role, permissions }: Account): Caller => ({
  role,
  claims: { sub: id, name, role, permissions },
  expiresAt: null,
  refused: null,
});

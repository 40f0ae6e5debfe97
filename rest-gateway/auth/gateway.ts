import { anonymous } from "../../db/caller.ts";
import { type Identity, NO_REQUEST } from "../../db/identity.ts";

/** The gateway itself: the login role of its pool, which "none" leaves as it is. */
export const GATEWAY: Identity = {
  caller: anonymous("none"),
  request: NO_REQUEST,
};

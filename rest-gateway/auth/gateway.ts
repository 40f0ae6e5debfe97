import { type Identity, nobody } from "../../db/caller.ts";

/** The gateway itself: the login role of its pool, which "none" leaves as it is. */
export const GATEWAY: Identity = {
  caller: nobody("none"),
  request: { method: "", path: "", headers: "{}", cookies: "{}" },
};

import { CallerResolver } from "../../identity/caller-resolver.ts";
import type { Verifier } from "../../identity/verified-tokens.ts";

/** Identifies requests without credentials, as the role anon. */
export const anonymousCallers = (address = "") =>
  new CallerResolver({
    tokens: { validity: { version: 0 } } as Verifier,
    anonymousRole: "anon",
    store: null,
    showsCredentials: false,
    addressOf: () => address,
  });

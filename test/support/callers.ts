import { CallerResolver } from "../../identity/caller-resolver.ts";

/** Identifies requests without credentials, as the role anon. */
export const anonymousCallers = () =>
  new CallerResolver({
    tokens: null as never,
    anonymousRole: "anon",
    store: null,
    showsCredentials: false,
    addressOf: () => "",
  });

import type { Protocol } from "./federated/protocol.ts";
import type { CreatePasskeys } from "./passkeys/passkeys.ts";

/** What parts bring to authentication. */
export type AuthParts = {
  /** Whether the pages for sign-in and accounts are served. */
  readonly hasAccountPages: boolean;
  /** Of identity providers. */
  readonly protocols: readonly Protocol[];
  /** Null without passkeys. */
  readonly createPasskeys: CreatePasskeys | null;
};

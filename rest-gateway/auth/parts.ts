import type { ProviderKind } from "../../config/provider-entry.ts";
import type { CreateFederated } from "./federated.ts";
import type { CreateMails } from "./mail/mails.ts";
import type { CreatePasskeys } from "./passkeys/passkeys.ts";

/** What parts bring to authentication. */
export type AuthParts = {
  /** Whether the pages for sign-in and accounts are served. */
  readonly hasAccountPages: boolean;
  readonly providerKinds: readonly ProviderKind[];
  /** Null without identity providers. */
  readonly createFederated: CreateFederated | null;
  /** Null without e-mails. */
  readonly createMails: CreateMails | null;
  /** Null without passkeys. */
  readonly createPasskeys: CreatePasskeys | null;
};

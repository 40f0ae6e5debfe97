import type { Logger } from "pino";
import type { Config } from "../../../config/config.ts";
import type { Clock } from "../../../identity/account.ts";
import { createOutbound, type OutboundSettings } from "../../../identity/outbound.ts";
import type { AuthFunctions } from "../functions.ts";
import type { OneTimeValues } from "../one-time-values.ts";
import { isSignupOpen } from "../registration.ts";
import type { AuthRepository } from "../repository.ts";
import { deriveKey, SecretBox } from "../secret-box.ts";
import { Completion } from "./completion.ts";
import { Flows } from "./flow.ts";
import { IdentityRepository } from "./identity-repository.ts";
import type { Protocol } from "./protocol.ts";
import { Providers } from "./providers.ts";
import type { Wire } from "./wire.ts";

export type FederatedSettings = OutboundSettings & Pick<Config, "providers" | "signup">;

export type FederatedOptions = {
  readonly settings: FederatedSettings;
  /** Those of the parts that are open. */
  readonly protocols: readonly Protocol[];
  /** The public URL of the service. */
  readonly url: string;
  readonly functions: AuthFunctions;
  readonly once: OneTimeValues;
  readonly repository: Pick<AuthRepository, "note">;
  /** The secret of the service, from which keys are derived. */
  readonly secret: string;
  readonly clock: Clock;
  readonly log: Logger;
};

/** The services behind sign-in with identity providers. */
export type Federated = {
  readonly providers: Providers;
  readonly identities: IdentityRepository;
  readonly flows: Flows;
  readonly completion: Completion;
  /** The other APIs at which a sign-in may begin, by name. */
  readonly wires: Map<string, Wire>;
  readonly log: Logger;
};

export function createFederated(options: FederatedOptions): Federated {
  const { settings, protocols, url, functions, once, repository, secret, clock, log } = options;
  const identities = new IdentityRepository(functions);
  const context = { baseUrl: url, outbound: createOutbound(settings), once, clock, log };
  const box = new SecretBox(deriveKey(secret, "identities"));
  const reader = settings.providers.with(protocols);
  return {
    providers: new Providers({ reader, protocols, repository: identities, context, log }),
    identities,
    flows: new Flows(secret),
    completion: new Completion({ identities, repository, once, isClosed: !isSignupOpen(settings), box, clock }),
    wires: new Map(),
    log,
  };
}

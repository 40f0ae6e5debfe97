import type { Logger } from "pino";
import type { Config } from "../../../config/config.ts";
import type { Clock } from "../../../identity/account.ts";
import { createOutbound, type OutboundSettings } from "../../../identity/outbound.ts";
import type { AuthFunctions } from "../functions.ts";
import { isSignupOpen } from "../registration.ts";
import type { AuthRepository } from "../repository.ts";
import { deriveKey, SecretBox } from "../secret-box.ts";
import { Completion } from "./completion.ts";
import { Flows } from "./flow.ts";
import { IdentityRepository, OneTimeValues } from "./identity-repository.ts";
import type { Protocol } from "./protocol.ts";
import { Providers } from "./providers.ts";
import { ReturnUrls } from "./sign-in-request.ts";
import type { Wire } from "./wire.ts";

export type FederatedSettings = OutboundSettings & Pick<Config, "providers" | "authReturnOrigins" | "signup">;

export type FederatedOptions = {
  readonly settings: FederatedSettings;
  /** Those of the parts that are open. */
  readonly protocols: readonly Protocol[];
  /** The public URL of the service. */
  readonly url: string;
  readonly functions: AuthFunctions;
  readonly repository: Pick<AuthRepository, "note">;
  /** The secret of the service, from which keys are derived. */
  readonly secret: string;
  readonly clock: Clock;
  readonly log: Logger;
};

/** The services behind sign-in with identity providers. */
export type Federated = {
  readonly url: string;
  readonly providers: Providers;
  readonly identities: IdentityRepository;
  readonly flows: Flows;
  readonly once: OneTimeValues;
  readonly completion: Completion;
  readonly returnUrls: ReturnUrls;
  /** The other APIs at which a sign-in may begin, by name. */
  readonly wires: Map<string, Wire>;
  readonly log: Logger;
};

export function createFederated(options: FederatedOptions): Federated {
  const { settings, protocols, url, functions, repository, secret, clock, log } = options;
  const identities = new IdentityRepository(functions);
  const once = new OneTimeValues(functions);
  const context = { baseUrl: url, outbound: createOutbound(settings), once, clock, log };
  const box = new SecretBox(deriveKey(secret, "identities"));
  const reader = settings.providers.with(protocols);
  return {
    url,
    providers: new Providers({ reader, protocols, repository: identities, context, log }),
    identities,
    flows: new Flows(secret),
    once,
    completion: new Completion({ identities, repository, once, isClosed: !isSignupOpen(settings), box, clock }),
    returnUrls: new ReturnUrls(url, settings.authReturnOrigins, log),
    wires: new Map(),
    log,
  };
}

import type { Logger } from "pino";
import type { Clock } from "../../identity/account.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { Federated } from "../../rest-gateway/auth/federated.ts";
import type { OneTimeValues } from "../../rest-gateway/auth/one-time-values.ts";
import type { AuthRepository } from "../../rest-gateway/auth/repository.ts";
import type { Throttle } from "../../rest-gateway/auth/throttle.ts";
import type { Wire } from "../../rest-gateway/auth/wires.ts";
import type { Completion } from "./completion.ts";
import type { Flows } from "./flow.ts";
import type { IdentityRepository } from "./identity-repository.ts";
import type { Providers } from "./providers.ts";

/** The services behind sign-in with identity providers, for the routes of all protocols. */
export type FederatedServices = {
  /** The public URL of the service. */
  readonly url: string;
  readonly providers: Providers;
  readonly identities: IdentityRepository;
  readonly flows: Flows;
  readonly completion: Completion;
  readonly wires: ReadonlyMap<string, Wire>;
  readonly once: OneTimeValues;
  readonly repository: AuthRepository;
  readonly throttle: Throttle;
  /** Drops cached identities of a user. */
  forget(userId: string): void;
  readonly clock: Clock;
  readonly log: Logger;
};

/** What `createFederated` returns: the interface of the core, and the services behind it. */
export type OwnFederated = Federated & { readonly services: FederatedServices };

/** The routes of the protocols are served only where this part has created it. */
export const servicesOf = ({ federated }: Pick<Auth, "federated">): FederatedServices =>
  (federated as OwnFederated).services;

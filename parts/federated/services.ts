import type { Logger } from "pino";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { Federated } from "../../rest-gateway/auth/federated.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import type { SecretBox } from "../../rest-gateway/auth/secret-box.ts";
import { Completion } from "./completion.ts";
import type { Flows } from "./flow.ts";
import { IdentityRepository } from "./identity-repository.ts";
import type { Providers } from "./providers.ts";

/** What all requests share. */
type Shared = { readonly providers: Providers; readonly flows: Flows; readonly box: SecretBox; readonly log: Logger };

/** The services behind sign-in with identity providers, for a request at a route of any protocol. */
export type FederatedServices = Auth &
  Shared & { readonly identities: IdentityRepository; readonly completion: Completion };

/** What `createFederated` returns: the interface of the core, and the services behind it. */
export type OwnFederated = Federated & { readonly shared: Shared };

/** The routes of the protocols are served only where this part has created it. */
export function servicesOf(auth: Auth): FederatedServices {
  const { shared } = auth.federated as OwnFederated;
  const identities = new IdentityRepository(auth.functions);
  const isClosed = !isSignupOpen(auth.settings);
  return { ...auth, ...shared, identities, completion: new Completion({ ...auth, ...shared, identities, isClosed }) };
}

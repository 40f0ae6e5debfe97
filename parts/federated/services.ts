import type { Logger } from "pino";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { Federated } from "../../rest-gateway/auth/federated.ts";
import type { SecretBox } from "../../rest-gateway/auth/secret-box.ts";
import type { Flows } from "./flow.ts";
import type { Providers } from "./providers.ts";

/** What all requests share. */
type Shared = { readonly providers: Providers; readonly flows: Flows; readonly box: SecretBox; readonly log: Logger };

/** The services behind sign-in with identity providers, for a request at a route of any protocol. */
export type FederatedServices = Auth & Shared;

/** What `createFederated` returns: the interface of the core, and the services behind it. */
export type OwnFederated = Federated & { readonly shared: Shared };

/** The routes of the protocols are served only where this part has created it. */
export const servicesOf = (auth: Auth): FederatedServices => ({ ...auth, ...(auth.federated as OwnFederated).shared });

import type { ProviderKind, ProviderSettings } from "../../config/provider-entry.ts";
import type { Check } from "../../identity/diagnosis.ts";
import type { Registration } from "../../rest-gateway/auth/federated.ts";
import type { Provider, ProviderContext } from "./provider.ts";

/** How users sign in at providers of a kind. A part brings it, with its routes. */
export type Protocol = ProviderKind & {
  /** `SAML 2.0` */
  readonly title: string;
  /** Loads the libraries, which only a service with such a provider needs. */
  create(settings: ProviderSettings, context: ProviderContext): Promise<Provider>;
  /** What must be registered at the provider. `url` returns the URL of a route: `url("acs")` → `https://api.example.com/auth/saml/corp/acs` */
  registration(settings: ProviderSettings, url: (end: string) => string): Registration;
  /** Checks the settings by asking the provider. */
  diagnose(settings: ProviderSettings, context: ProviderContext): Promise<readonly Check[]>;
};

export const protocolsIn = (kinds: readonly ProviderKind[]): readonly Protocol[] =>
  kinds.filter((kind): kind is Protocol => "create" in kind);

import type { Protocol } from "../federated/protocol.ts";
import { SAML_ENTRIES, type SamlSettings } from "./settings.ts";

/** SAML 2.0. */
export const SAML: Protocol = {
  ...SAML_ENTRIES,
  title: "SAML 2.0",
  create: async (settings: SamlSettings, context) =>
    new (await import("./provider.ts")).SamlProvider(settings, context),
  registration: ({ entityId }: SamlSettings, url) => [
    ["entity id", entityId ?? url("metadata")],
    ["metadata", url("metadata")],
    ["assertion consumer URL", url("acs")],
    ["logout URL", url("logout")],
  ],
  diagnose: async (settings: SamlSettings, context) => (await import("./diagnosis.ts")).diagnose(settings, context),
};

import type { Part } from "../../service/part.ts";
import { diagnoseProvider } from "./diagnosis.ts";
import { createFederated } from "./federated.ts";
import { PROTOCOLS } from "./oauth/protocols.ts";
import { PROVIDER_ROUTES } from "./oauth/routes.ts";
import { FEDERATED_ROUTES } from "./routes.ts";

export const federated: Part = {
  name: "federated",
  about: "sign-in with OpenID Connect and OAuth 2.0 at identity providers",
  providerKinds: PROTOCOLS,
  federated: createFederated,
  diagnoseProvider,
  authRoutes: { ...FEDERATED_ROUTES, ...PROVIDER_ROUTES },
};

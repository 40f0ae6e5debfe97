import { diagnoseProvider } from "../../rest-gateway/auth/federated/diagnosis.ts";
import { createFederated } from "../../rest-gateway/auth/federated/federated.ts";
import { FEDERATED_ROUTES } from "../../rest-gateway/auth/federated/routes.ts";
import type { Part } from "../../service/part.ts";
import { PROTOCOLS } from "./protocols.ts";
import { PROVIDER_ROUTES } from "./routes.ts";

export const federated: Part = {
  name: "federated",
  about: "sign-in with OpenID Connect and OAuth 2.0 at identity providers",
  providerKinds: PROTOCOLS,
  federated: createFederated,
  diagnoseProvider,
  authRoutes: { ...FEDERATED_ROUTES, ...PROVIDER_ROUTES },
};

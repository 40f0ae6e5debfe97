import type { Part } from "../../service/part.ts";
import { PROTOCOLS } from "./protocols.ts";
import { PROVIDER_ROUTES } from "./routes.ts";

export const federated: Part = {
  name: "federated",
  about: "sign-in with OpenID Connect and OAuth 2.0 at identity providers",
  protocols: PROTOCOLS,
  authRoutes: PROVIDER_ROUTES,
};

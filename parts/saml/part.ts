import type { Part } from "../../service/part.ts";
import { SAML } from "./protocol.ts";
import { SAML_ROUTES } from "./routes.ts";

export const saml: Part = {
  name: "saml",
  about: "sign-in with SAML 2.0 at identity providers",
  needs: ["federated"],
  providerKinds: [SAML],
  authRoutes: SAML_ROUTES,
};

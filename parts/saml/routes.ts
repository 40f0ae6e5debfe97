import { z } from "zod";
import { ok } from "../../rest-gateway/auth/answers.ts";
import { readForm } from "../../rest-gateway/auth/bodies.ts";
import { NOT_SIGNED_IN } from "../../rest-gateway/auth/pages/failure.ts";
import { type Call, type Routes, route } from "../../rest-gateway/auth/route.ts";
import { named } from "../../rest-gateway/auth/schemas.ts";
import { completeSignIn } from "../federated/browser.ts";
import { COMPLETED, FOR_BROWSERS, logoutRoutes, startRoute } from "../federated/protocol-routes.ts";
import { servicesOf } from "../federated/services.ts";
import { signOutBySaml } from "./logout.ts";
import type { SamlProvider } from "./provider.ts";

const SamlForm = named("SamlResponse", {
  SAMLResponse: z.string().describe("The response of the provider: XML in base64."),
  RelayState: z.string().describe("The relay state of the request."),
});

/** `/auth/saml/{provider}` */
export const SAML_ROUTES: Routes = {
  ...startRoute("saml", "SamlSignIn", "SAML 2.0"),
  "POST /auth/saml/{provider}/acs": route({
    operationId: "finishSamlSignIn",
    summary: "Complete a sign-in with SAML 2.0",
    description: `The assertion consumer endpoint. The response must be one to a request of this browser, and is accepted once. With \`mode=token\` and without a code challenge, the response is tokens. ${FOR_BROWSERS}`,
    credential: "none",
    form: SamlForm,
    answer: COMPLETED,
    problems: [401, 403, 409],
    errorPage: NOT_SIGNED_IN,
    handle: async (call) => completeSignIn(call, "saml", await readForm(call.request), "RelayState"),
  }),
  "GET /auth/saml/{provider}/metadata": route({
    operationId: "readSamlMetadata",
    summary: "Read the metadata of this service for a SAML provider",
    description: `Its URL is the entity id of the service, unless the provider's entry names another. ${FOR_BROWSERS}`,
    credential: "none",
    answer: { ...ok("The metadata."), text: "application/samlmetadata+xml" },
    errorPage: NOT_SIGNED_IN,
    handle: sendMetadata,
  }),
  ...logoutRoutes("saml", {
    handle: signOutBySaml,
    query: {
      SAMLRequest: "A sign-out that the provider requests: ends all sign-ins of the user.",
      SAMLResponse: "The response of the provider to a sign-out that began here.",
      RelayState: "Returned by the provider, or returned to it.",
      SigAlg: "The algorithm of the signature: `rsa-sha256` or `rsa-sha512`, as a URI.",
      Signature: "The signature of the message. Required.",
    },
    problems: [400, 401, 403],
  }),
};

async function sendMetadata({ auth, request, response }: Call): Promise<void> {
  const provider = servicesOf(auth).providers.find(String(request.params.provider), "saml") as SamlProvider;
  response.type("application/samlmetadata+xml; charset=utf-8").send(provider.ownMetadata());
}

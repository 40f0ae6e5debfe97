import { z } from "zod";
import { ok, ProviderListAnswer, page, withCookie } from "../answers.ts";
import { describeProvider, providersOf } from "../federated.ts";
import { type Routes, route } from "../route.ts";
import { named } from "../schemas.ts";
import { NOT_SIGNED_IN } from "./failure.ts";
import { CODE_PATH } from "./paths.ts";
import { completeWithCode } from "./sign-in.ts";

const CodeForm = named("FederatedCode", {
  challenge: z.string().describe("The challenge in the page."),
  code: z.string().optional().describe("The code that the app shows, or a backup code."),
  passkey: z.string().optional().describe("A passkey in place of the code: the JSON of its signature."),
  kinds: z.string().optional().describe("What the page offers: `totp`, `passkey` or both."),
});

/** What pages of a sign-in need, those of the service and those of an application. */
export const PAGE_ROUTES: Routes = {
  "GET /auth/providers": route({
    operationId: "listProviders",
    summary: "List the identity providers",
    description: "For the buttons of a login page.",
    credential: "none",
    answer: ok("All providers, in the order of the file.", ProviderListAnswer),
    handle: async ({ auth }) => ({ data: providersOf(auth).map(describeProvider) }),
  }),
  [`POST ${CODE_PATH}`]: route({
    operationId: "completeSignInWithCode",
    summary: "Complete a sign-in with the code of the second factor",
    description: "The form that the browser shows after a sign-in at a provider, if the account has a second factor.",
    credential: "none",
    sameOrigin: true,
    form: CodeForm,
    answer: withCookie({
      ...page("Signed in: where the browser continues. For a URL of another origin, a page continues."),
      status: 303,
      headers: ["Location"],
    }),
    problems: [400, 401, 403],
    errorPage: NOT_SIGNED_IN,
    handle: completeWithCode,
  }),
};

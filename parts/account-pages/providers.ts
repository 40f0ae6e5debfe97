import { type Html, html } from "../../gate/pages/html.ts";
import { describeProvider, providersOf } from "../../rest-gateway/auth/federated.ts";
import { ACCOUNT_PATH, pathOf } from "../../rest-gateway/auth/pages/paths.ts";
import type { Visit } from "./visit.ts";

/** A link to each identity provider. It is no form, because a form may not lead to another site. */
export function providerLinks({ auth, returnTo }: Visit): Html | null {
  const providers = providersOf(auth).map(describeProvider);
  if (providers.length === 0) return null;
  const query = new URLSearchParams({ return_to: returnTo ?? pathOf(auth, ACCOUNT_PATH) }).toString();
  return html`<p class="or"><span>or</span></p>
<ul class="providers">
${providers.map(({ title, signIn }) => html`<li><a class="button quiet" href="${pathOf(auth, signIn)}?${query}">Continue with ${title}</a></li>\n`)}</ul>`;
}

import { html } from "../../../http/pages/html.ts";
import { sentence } from "./form.ts";
import { type Recipient, sendPage } from "./page.ts";
import { pathOf, SIGN_IN_PATH } from "./paths.ts";

/** The title of the page after a sign-in that has failed. */
export const NOT_SIGNED_IN = "You are not signed in";

export type Failure = {
  readonly status: number;
  readonly title: string;
  readonly message: string;
  readonly hint: string | null;
  readonly requestId: string;
  /** Where the user can start again; null if that would not help. */
  readonly retry: string | null;
};

/** A page that says why something was refused. */
export function sendFailure(to: Recipient, { status, title, message, hint, requestId, retry }: Failure): void {
  const { auth } = to;
  const main = html`<p class="alert" role="alert">${sentence(message)}</p>
${hint === null ? null : html`<p>${hint}</p>\n`}${retry === null ? null : html`<p><a class="button" href="${retry}">Try again</a></p>\n`}<p class="hint">Reference: <code>${requestId}</code></p>
${auth.hasAccountPages ? html`<ul class="links"><li><a href="${pathOf(auth, SIGN_IN_PATH)}">Go to the sign-in</a></li></ul>` : null}`;
  sendPage(to, { status, title, main });
}

import { html } from "../../gate/pages/html.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";

type DonePage = {
  readonly title: string;
  readonly about: string;
  /** Whether the user signs in next. */
  readonly signsIn?: true;
};

export const SENT = "It arrives within a few minutes. If not, look into the folder for spam, and check the address.";

const PAGES = {
  confirmed: { title: "Your e-mail is confirmed", about: "Thank you. Sign in with it from now on.", signsIn: true },
  declined: {
    title: "The request is ended",
    about:
      "No account gets your address by it. If you want to use this service, sign up, or request a new password if there is an account with your address.",
    signsIn: true,
  },
  reset: {
    title: "Your password is changed",
    about: "All sign-ins of the account have ended. Sign in with the new password.",
    signsIn: true,
  },
  undone: {
    title: "The change is undone",
    about: "An e-mail to choose a new password is on its way. Until then, the account has no password.",
  },
  "reset-sent": { title: "Check your e-mail", about: `We have sent an e-mail to choose a new password. ${SENT}` },
  "confirm-sent": { title: "Check your e-mail", about: `We have sent an e-mail to confirm your address. ${SENT}` },
  "signed-out": { title: "You are signed out", about: "You can close this page.", signsIn: true },
} satisfies Readonly<Record<string, DonePage>>;

export type Done = keyof typeof PAGES;

/** `returnTo` is where the user continues. */
export function doneUrl(auth: Auth, done: Done, returnTo: string | null = null): string {
  const query = new URLSearchParams({ of: done, ...(returnTo !== null && { return_to: returnTo }) });
  return `${pathOf(auth, DONE_PATH)}?${query}`;
}

/** `GET /auth/done?of=reset`: what has happened, and where the user continues. */
export async function showDone(call: Call): Promise<void> {
  const { auth } = call;
  const query = new URLSearchParams(searchOf(call.request));
  const name = query.get("of") as Done;
  const page: DonePage = Object.hasOwn(PAGES, name) ? PAGES[name] : PAGES["signed-out"];
  const sent = query.get("return_to");
  const returnTo = sent === null ? null : auth.returnUrls.parse(sent);
  const next = page.signsIn ? nextOf(auth, returnTo) : null;
  const main = html`<p role="status">${page.about}</p>
${next && html`<p><a class="button" href="${next.url}">${next.name}</a></p>`}`;
  sendPage(call, { title: page.title, main });
}

/** An application with pages of its own has sent its users there. */
function nextOf(auth: Auth, returnTo: string | null): { readonly url: string; readonly name: string } | null {
  if (!auth.hasAccountPages) return returnTo === null ? null : { url: returnTo, name: "Continue" };
  const query = returnTo === null ? "" : `?${new URLSearchParams({ return_to: returnTo })}`;
  return { url: `${pathOf(auth, SIGN_IN_PATH)}${query}`, name: "Sign in" };
}

/** Where a browser continues after a form, so that reloading sends nothing again. */
export const DONE_PATH = "/auth/done";

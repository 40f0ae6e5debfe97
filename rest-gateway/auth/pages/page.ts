import type { Response } from "express";
import { frameOf, type Html, html } from "../../../gate/pages/html.ts";
import { identityOf } from "../../../gate/pipeline/exchange.ts";
import type { Auth } from "../auth.ts";
import type { Call } from "../route.ts";
import { pathOf } from "./paths.ts";

// The pages on which users sign in and manage their accounts. They load only the style sheet, and the script for passkeys where a page has
// a button for one, and are not framed.

const POLICY = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src 'self' data:",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

const WITH_SCRIPT = `${POLICY}; script-src 'self'; connect-src 'self'`;

/** Where a page is sent. */
export type Recipient = { readonly auth: Auth; readonly response: Response };

export type SentPage = {
  readonly title: string;
  readonly main: Html;
  readonly status?: number;
  readonly head?: Html;
  /** The markup above the content, beside the name of the service. */
  readonly aside?: Html | null;
  /** Whether it has the width of a list, rather than that of a form. */
  readonly isWide?: boolean;
  /**
   * Whether browsers name the origin of the page in requests that it causes, as far as it is that of the service. Not for a page
   * whose URL has a token or a code.
   */
  readonly namesOrigin?: boolean;
  /** Whether it has a button for passkeys. */
  readonly hasPasskeyButton?: boolean;
};

export function sendPage({ auth, response }: Recipient, page: SentPage): void {
  const { title, main, status = 200, head = null, aside = null, isWide = false, namesOrigin = false } = page;
  const { hasPasskeyButton = false } = page;
  const script = html`<script type="module" src="${pathOf(auth, "/assets/passkeys.js")}"></script>\n`;
  const service = new URL(auth.url).hostname;
  const text = frameOf({
    title: `${title} – ${service}`,
    head: html`<meta name="robots" content="noindex">\n${hasPasskeyButton ? script : null}${head}`,
    base: pathOf(auth, ""),
    body: html`<body class="account">
<header class="plain"><p class="brand">${service}</p>${aside}</header>
<main class="card${isWide ? " list" : ""}">
<h1>${title}</h1>
${main}
</main>
</body>`,
  });
  response
    .status(status)
    .set({
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": hasPasskeyButton ? WITH_SCRIPT : POLICY,
      "Referrer-Policy": namesOrigin ? "same-origin" : "no-referrer",
    })
    .end(text);
}

/**
 * Continues at a URL. Not a redirect: the browser would count the request as one of the provider, and not send the session
 * cookie, which is SameSite=Strict; and after a form it would refuse another origin, which the policy does not name.
 */
export function sendContinuation(to: Recipient, url: string, title = "You are signed in"): void {
  const head = html`<meta http-equiv="refresh" content="0; url=${url}">\n`;
  sendPage(to, { title, main: html`<p><a class="button" href="${url}">Continue</a></p>`, head });
}

/**
 * Browsers send the session cookie only with requests that pages of this site cause. After a link from elsewhere, this sends a page that
 * causes one, and returns true.
 */
export function openAgain(call: Call): boolean {
  const { headers, method } = call.request;
  const hasCookie = identityOf(call.request).credentials.session !== null;
  if (hasCookie || method !== "GET" || headers["sec-fetch-site"] !== "cross-site") return false;
  const url = pathOf(call.auth, "") + call.request.url;
  const head = html`<meta http-equiv="refresh" content="0; url=${url}">\n`;
  sendPage(call, { title: "One moment", main: html`<p><a href="${url}">Continue</a></p>`, head });
  return true;
}

import { html } from "../../../gate/pages/html.ts";
import { identityOf } from "../../../gate/pipeline/exchange.ts";
import type { Call } from "../route.ts";
import { sendPage } from "./page.ts";
import { pathOf } from "./paths.ts";

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

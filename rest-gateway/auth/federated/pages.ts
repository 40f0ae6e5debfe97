import { createHash } from "node:crypto";
import type { Response } from "express";
import { escapeMarkup } from "../../../http/pipeline/response.ts";

/** The pages of a sign-in. They load nothing, run no script and are not framed. */

const STYLE = `
:root { color-scheme: light dark; --line: #d0d7de; --soft: #57606a; --accent: #0b57d0; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --soft: #9198a1; --accent: #8ab4f8; --bad: #f2b8b5 } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 26rem; padding: 2rem; border: 1px solid var(--line); border-radius: .75rem }
h1 { margin: 0 0 .75rem; font-size: 1.375rem; line-height: 1.3 }
p { margin: 0 0 1rem }
p:last-child, form:last-child { margin-bottom: 0 }
a { color: var(--accent) }
label { display: block; margin-bottom: .25rem; font-weight: 600 }
input { width: 100%; padding: .5rem .75rem; font: inherit; font-size: 1.25rem; letter-spacing: .15em; border: 1px solid var(--line); border-radius: .375rem }
button, .button { display: inline-block; margin: .75rem .75rem 0 0; padding: .5rem 1.25rem; font: inherit; font-weight: 600; color: Canvas; background: var(--accent); border: 0; border-radius: .375rem; text-decoration: none; cursor: pointer }
.error { color: var(--bad) }
.soft { color: var(--soft); font-size: .875rem }
code { overflow-wrap: anywhere }
`;

const HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": [
    "default-src 'none'",
    `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "Referrer-Policy": "no-referrer",
};

/** Sends a page of a sign-in, or of a link in an e-mail. `body` is markup. */
export function sendPage(response: Response, status: number, title: string, body: string, head = ""): void {
  const text = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
${head}<title>${escapeMarkup(title)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escapeMarkup(title)}</h1>
${body}
</main>
</body>
</html>
`;
  response.status(status).set(HEADERS).end(text);
}

/**
 * Continues at a URL. Not a redirect: the browser would count the request as one of the provider, and not send the session
 * cookie, which is SameSite=Strict.
 */
export function sendContinuation(response: Response, url: string): void {
  const href = escapeMarkup(url);
  const head = `<meta http-equiv="refresh" content="0; url=${href}">\n`;
  sendPage(response, 200, "You are signed in", `<p><a href="${href}">Continue</a></p>`, head);
}

export function sendSignedOut(response: Response, text = "You can close this page."): void {
  sendPage(response, 200, "You are signed out", `<p>${escapeMarkup(text)}</p>`);
}

/** Asks for the code of the second factor. `problem` is what was wrong with the previous one. */
export function sendCodeForm(
  response: Response,
  status: number,
  form: { readonly action: string; readonly challenge: string; readonly problem: string | null },
): void {
  const { action, challenge, problem } = form;
  const body = `<form method="post" action="${escapeMarkup(action)}">
<p>Enter the code that your authenticator app shows, or a backup code.</p>
${problem === null ? "" : `<p class="error" role="alert">${escapeMarkup(sentence(problem))}</p>\n`}<input type="hidden" name="challenge" value="${escapeMarkup(challenge)}">
<label for="code">Code</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false" required autofocus>
<button>Sign in</button>
</form>`;
  sendPage(response, status, "One more step", body);
}

export type FailurePage = {
  readonly status: number;
  readonly title: string;
  readonly message: string;
  readonly hint: string | null;
  readonly requestId: string;
  /** Where the user can start again; null if that would not help. */
  readonly retry: string | null;
};

export function sendFailure(response: Response, { status, title, message, hint, requestId, retry }: FailurePage): void {
  const body = `<p>${escapeMarkup(sentence(message))}</p>
${hint === null ? "" : `<p>${escapeMarkup(hint)}</p>\n`}${retry === null ? "" : `<p><a class="button" href="${escapeMarkup(retry)}">Try again</a></p>\n`}<p class="soft">Reference: <code>${escapeMarkup(requestId)}</code></p>`;
  sendPage(response, status, title, body);
}

/** Messages of errors begin with a small letter and have no full stop. */
export const sentence = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;

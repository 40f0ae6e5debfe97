import type { Request } from "express";
import { html } from "../../../gate/pages/html.ts";
import { Problem } from "../../../problems/problem.ts";
import { problemHeaders, restAnswer } from "../../conventions/problem.ts";
import type { FailedCall } from "../federated.ts";
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

/**
 * Sends an error as a page, because a browser shows it to the user; `title` is that of the page. Rejects with the error for a
 * client that does not accept HTML, or that requested tokens in the response, and for a fault of the service.
 */
export async function failWithPage(call: FailedCall, error: unknown, title: string): Promise<void> {
  const { auth, request, response } = call;
  // A fault of the service: the error handler masks and logs it.
  if (!(error instanceof Problem)) throw error;
  const failed = await auth.federated?.reportFailure(call, error);
  if (failed?.url) return response.redirect(303, failed.url);
  if (failed?.isJson || !acceptsHtml(request)) throw error;
  const problem = restAnswer(error);
  const requestId = response.get("X-Request-Id") ?? "";
  const headers = problemHeaders(problem);
  for (let i = 0; i < headers.length; i += 2) response.set(headers[i]!, headers[i + 1]!);
  sendFailure(call, { ...problem, title, hint: problem.hint ?? null, requestId, retry: failed?.retry ?? null });
}

const acceptsHtml = ({ headers: { accept = "" } }: Request) => /\btext\/html\b/.test(accept);

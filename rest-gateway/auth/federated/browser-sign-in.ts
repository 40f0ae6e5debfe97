import type { Request } from "express";
import { Problem } from "../../../db/problems/problem.ts";
import { problemHeaders, restAnswer } from "../../conventions/problem.ts";
import type { Auth } from "../auth.ts";
import { sendFailure } from "../pages/failure.ts";
import type { Call } from "../route.ts";
import { isSignInFailure } from "./failure.ts";
import { type Provider, urlOf } from "./provider.ts";
import type { SignInRequest } from "./sign-in-request.ts";
import { failureUrl } from "./wire.ts";

/** What is known of a sign-in that a browser requests: it decides how a failure is reported. */
export type BrowserSignIn = {
  provider: Provider | null;
  /** Null until the state of the sign-in has been taken. */
  start: SignInRequest | null;
};

/**
 * Sends an error as a page, because a browser shows it to the user; `title` is that of the page. Rejects with the error for a
 * client that does not accept HTML, or that requested tokens in the response, and for a fault of the service.
 */
export async function failWithPage(call: Failed, error: unknown, title: string): Promise<void> {
  const { auth, request, response, attempt } = call;
  // A fault of the service: the error handler masks and logs it.
  if (!(error instanceof Problem)) throw error;
  await report(call, error);
  const wire = attempt.start && auth.federated.wires.get(attempt.start.wire ?? "");
  if (wire) return response.redirect(303, failureUrl(wire, attempt.start!, error));
  if (wantsJson(request, attempt)) throw error;
  const problem = restAnswer(error);
  const retry = retryUrl(auth, attempt);
  const requestId = response.get("X-Request-Id") ?? "";
  const headers = problemHeaders(problem);
  for (let i = 0; i < headers.length; i += 2) response.set(headers[i]!, headers[i + 1]!);
  sendFailure(call, { ...problem, title, hint: problem.hint ?? null, requestId, retry });
}

type Failed = Pick<Call, "auth" | "request" | "response" | "client" | "attempt">;

function wantsJson({ headers: { accept = "" } }: Request, { start }: BrowserSignIn): boolean {
  if (start?.mode === "token" && start.challenge === null) return true;
  return !/\btext\/html\b/.test(accept);
}

/** Where the user can start again: the client's page, if it has to create another challenge. */
function retryUrl({ url: baseUrl }: Auth, { provider, start }: BrowserSignIn): string | null {
  if (provider === null || start === null) return null;
  if (start.challenge !== null) return start.returnTo;
  const url = new URL(urlOf({ baseUrl }, provider.settings));
  if (start.returnTo !== null) url.searchParams.set("return_to", start.returnTo);
  return url.href;
}

/** The page gives no reason that would help an attacker; the log and the security event do. */
async function report({ auth, response, client, attempt }: Failed, error: unknown): Promise<void> {
  const { federated, repository } = auth;
  const { provider, start } = attempt;
  if (!isSignInFailure(error)) return;
  const { reason } = error;
  const { detail } = error.more;
  const name = provider?.settings.name ?? null;
  const requestId = response.get("X-Request-Id");
  federated.log.warn({ requestId, provider: name, reason, detail }, "a sign-in at an identity provider has failed");
  // Only for sign-ins that have begun: other requests could fill the table.
  if (start === null || reason === "account disabled") return;
  const event = {
    event: "login_failed",
    userId: null,
    address: client.address,
    detail: { provider: name, reason },
  };
  await repository.note(event as Parameters<typeof repository.note>[0]);
}

import { hashOf } from "../../identity/secrets.ts";
import { Problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { MailCode } from "../../rest-gateway/auth/mail/mails.ts";
import { NOT_SIGNED_IN } from "../../rest-gateway/auth/pages/failure.ts";
import { sendContinuation } from "../../rest-gateway/auth/pages/page.ts";
import { findAccountOf } from "../../rest-gateway/auth/repository.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { issueCode } from "../../rest-gateway/auth/sign-in-codes.ts";
import { codeUrl, failureUrl, signedInUrl, type Wire } from "../../rest-gateway/auth/wires.ts";
import type { Link } from "./repository.ts";
import { takeLink } from "./sign-in.ts";

// Links that sign an application in: it has requested the e-mail over another API than `/auth`, with a URL to return to.

/** Where such a link continues. */
export type Target = {
  readonly wire: Wire;
  readonly returnTo: string;
  readonly challenge: string | null;
  readonly type: string;
  /** What names it in the URL of the page, and in its form. */
  readonly sent: { readonly wire: string; readonly redirect_to: string };
};

/** Kinds of tokens, and what an API calls their links if the request has not said it. */
const TYPES: Readonly<Record<string, string>> = {
  ...{ "sign-in": "magiclink", reset: "recovery", confirm: "signup", confirmed: "signup" },
};

/**
 * The target that the URL of the page names, as every link of such a request does, or that of the request. Null for other links, and for a
 * URL that is not allowed. `link` is null if the token is not valid.
 */
export function targetOf({ wires, returnUrls }: Auth, link: Link | null, query: URLSearchParams): Target | null {
  const application = link?.data.application;
  const name = query.get("wire") ?? application?.wire ?? "";
  const wire = wires.get(name);
  const returnTo = returnUrls.parse(query.get("redirect_to") ?? "") ?? link?.data.returnTo ?? null;
  const type = link === null ? "" : (application?.type ?? TYPES[link.kind]);
  if (wire === undefined || returnTo === null || type === undefined) return null;
  return {
    ...{ wire, returnTo, challenge: application?.challenge ?? null },
    // Its user is a new one.
    type: link?.kind === "sign-in" && link.account === null ? "signup" : type,
    sent: { wire: name, redirect_to: returnTo },
  };
}

/** Signs the application in with a link that was pressed. `user` is the one whose e-mail the link has just confirmed. */
export async function continueAtTarget(
  call: Call,
  { wire, returnTo, challenge, type }: Target,
  { kind }: Link,
  token: string,
  user: string | null,
): Promise<void> {
  const { auth, client } = call;
  if (challenge !== null) {
    const code = { tokenHash: hashOf(token).toString("hex"), kind: user === null ? kind : "confirmed" } as MailCode;
    return sendContinuation(call, codeUrl(wire, await issueCode(auth, code, "mail", challenge), returnTo));
  }
  const account = user === null ? null : (await findAccountOf(auth, user))!;
  const login = account
    ? { account, attempt: [], address: client.address, byMail: true as const }
    : await takeLink(call, token, kind as MailCode["kind"]);
  sendContinuation(call, await signedInUrl(call, wire, login, returnTo, { type }));
}

/** Continues at the target with the reason. Throws the error if there is no target, and for a fault of the service. */
export function failAtTarget(call: Call, target: Target | null, error: unknown): void {
  if (target === null || !(error instanceof Problem) || error.status >= 500) throw error;
  const url = failureUrl(target.wire, target.returnTo, target.challenge, error);
  if (call.request.method === "POST") sendContinuation(call, url, NOT_SIGNED_IN);
  else call.response.redirect(303, url);
}

import { identityOf } from "../../gate/pipeline/exchange.ts";
import type { Account } from "../../identity/account.ts";
import { SESSION, setSession } from "../../identity/cookies.ts";
import { problem } from "../../problems/problem.ts";
import { openAgain } from "../../rest-gateway/auth/pages/page.ts";
import { pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { parseReturnTo } from "../../rest-gateway/auth/return-urls.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { findSession } from "../../rest-gateway/auth/sessions.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { type Flash, flashOf, setFlash } from "./flash.ts";

/** A request of a browser for a page. */
export type Visit = Call<"none"> & {
  readonly query: URLSearchParams;
  /** Where the user continues after a sign-in; absolute, and allowed. Null if the page was opened without it. */
  readonly returnTo: string | null;
};

/** The same of a user who is signed in with the session cookie. It may be passed to the routes for an account. */
export type AccountVisit = Omit<Visit, "signedIn"> &
  Call<"account", unknown> & {
    readonly account: Account;
    /** Every form of the pages has it. */
    readonly csrf: string;
    /** What the last form has left for this page. */
    readonly flash: Flash;
  };

/** Throws Problem for a `return_to` that is not allowed, as sign-in at a provider does. */
export function visitOf(call: Call): Visit {
  const query = new URLSearchParams(searchOf(call.request));
  return { ...call, signedIn: null, query, returnTo: parseReturnTo(query, call.auth.returnUrls) };
}

/** `/auth/sign-up` → `/auth/sign-up?return_to=…` */
export const withReturnTo = ({ auth, returnTo }: Visit, path: string): string =>
  pathOf(auth, path) + (returnTo === null ? "" : `?${new URLSearchParams({ return_to: returnTo })}`);

/** The user of the session cookie; null if there is none, or no longer. */
export const signedInUser = async ({ auth, request }: Visit): Promise<Account | null> =>
  (await findSession(auth, identityOf(request).credentials))?.account ?? null;

/**
 * The visit of a signed-in user, whose session continues. Null if no user is signed in: then the browser continues at the sign-in, and
 * returns. `form` is what the user has sent; a form that is not from a page of this session is refused with Problem.
 */
export async function accountVisitOf(visit: Visit, form: URLSearchParams | null): Promise<AccountVisit | null> {
  const { auth, request, response } = visit;
  const session = await findSession(auth, identityOf(request).credentials);
  const caller = session && (await auth.callers.callerOf({ session: session.cookie }, request));
  if (session === null || caller === null) {
    signInFirst(visit);
    return null;
  }
  const { account, cookie } = session;
  if (form !== null && !auth.csrf.isOf(form.get("csrf") ?? "", cookie)) throw problem("outdated form");
  setSession(response, cookie);
  const signedIn = { id: account.id, caller };
  return { ...visit, signedIn, account, csrf: auth.csrf.of(cookie), flash: flashOf(visit, account.id) };
}

function signInFirst(visit: Visit): void {
  const { auth, request, response } = visit;
  if (openAgain(visit)) return;
  const hasCookie = identityOf(request).credentials.session !== null;
  if (hasCookie) SESSION.end(response);
  signInAgain(visit, `${pathOf(auth, "")}${request.url.split("?", 1)[0]}`, hasCookie ? "ended" : null);
}

/** Continues at the sign-in, which says why and leads back to a page of the account. */
export function signInAgain(
  { auth, response }: Visit | AccountVisit,
  path: string,
  why: "ended" | "recent" | null,
): void {
  const query = new URLSearchParams({ return_to: path, ...(why && { why }) });
  response.redirect(303, `${pathOf(auth, SIGN_IN_PATH)}?${query}`);
}

/** Continues at a page of the account after a form, with what that page shows once. */
export function continueAt(visit: AccountVisit, path: string, flash: Flash): void {
  setFlash(visit, visit.account.id, flash);
  visit.response.redirect(303, pathOf(visit.auth, path));
}

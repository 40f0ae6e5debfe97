import { problem } from "../../problems/problem.ts";
import { isRecent } from "../../rest-gateway/auth/confirmation.ts";
import { deleteKey } from "../../rest-gateway/auth/keys.ts";
import { mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { deleteSession } from "../../rest-gateway/auth/own-sessions.ts";
import { ACCOUNT_PATH, pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { currentSignInOf } from "../../rest-gateway/auth/route.ts";
import { signOut } from "../../rest-gateway/auth/sessions.ts";
import { isUuid } from "../../rest-gateway/conventions/parameters.ts";
import { invalidId } from "../../rest-gateway/conventions/problem.ts";
import { type AccountVisit, continueAt, signInAgain } from "./visit.ts";

// What a button of the account page does.

/** Ends the session of this browser. */
export async function signOutOnPage(visit: AccountVisit): Promise<void> {
  await signOut(visit, currentSignInOf(visit.signedIn), "local", "session");
  const { auth, response } = visit;
  response.redirect(303, auth.mails?.doneUrl(auth, "signed-out") ?? pathOf(auth, SIGN_IN_PATH));
}

/** Ends another session, or all others. */
export async function endSessionOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  if (form.get("id") === "others") await signOut(visit, currentSignInOf(visit.signedIn), "others", "session");
  else await deleteSession({ ...visit, id: idIn(form) });
  continueAt(visit, ACCOUNT_PATH, { notice: "That sign-in has ended." });
}

export async function revokeKeyOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  await deleteKey({ ...visit, id: idIn(form) });
  continueAt(visit, ACCOUNT_PATH, { notice: "The API key is revoked." });
}

export async function unlinkOnPage(visit: AccountVisit, form: URLSearchParams): Promise<void> {
  if (!isRecent(visit.auth, visit.signedIn)) return signInAgain(visit, pathOf(visit.auth, ACCOUNT_PATH), "recent");
  const { auth, signedIn, client } = visit;
  const id = idIn(form);
  if (auth.federated === null) throw problem("no such identity");
  if (!(await auth.federated.unlink(auth, currentSignInOf(signedIn), id, client))) throw problem("revoked token");
  continueAt(visit, ACCOUNT_PATH, { notice: "The identity is unlinked. All other sign-ins have ended." });
}

export async function confirmEmailOnPage(visit: AccountVisit): Promise<void> {
  const { email } = visit.account;
  await mailsIn(visit.auth).request(visit, "confirm", email, {});
  continueAt(visit, ACCOUNT_PATH, {
    notice: `We have sent an e-mail to ${email}. Open its link to confirm the address.`,
  });
}

/** The id of what the page is about. Throws Problem for a text that is not one. */
export function idIn(form: URLSearchParams): string {
  const id = form.get("id") ?? "";
  if (isUuid(id)) return id.toLowerCase();
  throw invalidId(id, "id: it must be a UUID", { field: "id", message: "must be a UUID" });
}

import { hashOf } from "../../identity/secrets.ts";
import { Problem, problem } from "../../problems/problem.ts";
import { type Link, mailsIn } from "../../rest-gateway/auth/mail/mails.ts";
import { LINK_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { failureUrl, withFragment } from "../../rest-gateway/auth/wires.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";
import type { AuthCall } from "./call.ts";
import { returnToIn } from "./destination.ts";
import { kindsOf, signInByMail } from "./email.ts";
import { BROWSER_WIRE, fragmentOf, WIRE } from "./wire.ts";

/**
 * `GET /verify?token=…&type=magiclink&redirect_to=…`, as the templates of Supabase link to it: leads to the page of the link, because
 * scanners of mail servers open links too. A link of the service key signs in at once.
 */
export async function openLink(call: AuthCall): Promise<void> {
  const { auth, request, response } = call;
  const query = new URLSearchParams(searchOf(request));
  const token = query.get("token") || query.get("token_hash") || "";
  const asked = returnToIn(call);
  let link: Link | null = null;
  try {
    link = await mailsIn(auth).findLink(auth, hashOf(token));
    // What was confirmed leads on until its code was exchanged.
    const kinds = kindsOf(query.get("type"));
    const isOfType = link !== null && (link.kind === "confirmed" || kinds.some((kind) => kind === link!.kind));
    if (!isOfType) throw problem("invalid link");
    const { returnTo = null, application } = link!.data;
    const target = asked ?? returnTo;
    if (application?.isDirect && target !== null && request.method === "GET") {
      const session = await signInByMail(call, hashOf(token), kinds);
      const values = { ...fragmentOf(session), type: application.type };
      return response.redirect(303, withFragment(BROWSER_WIRE, target, values));
    }
    const page = new URLSearchParams({ token, ...(target !== null && { wire: WIRE, redirect_to: target }) });
    response.redirect(303, `${auth.url}${LINK_PATH}?${page}`);
  } catch (error) {
    const target = asked ?? link?.data.returnTo ?? null;
    if (target === null || !(error instanceof Problem) || error.status >= 500) throw error;
    response.redirect(303, failureUrl(BROWSER_WIRE, target, link?.data.application?.challenge ?? null, error));
  }
}

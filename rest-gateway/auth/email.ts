import type { Router } from "express";
import type { Auth } from "./auth.ts";
import { EmailBody, parse, readBody } from "./bodies.ts";
import { requireRecentSignIn } from "./confirmation.ts";
import { emailRefused, refuseRaised } from "./problem.ts";
import { clientOf, ownerOf, route, routes } from "./route.ts";

/** `/auth/email`: changes the e-mail that the user signs in with, and the e-mail of the user. */
export function emailRouter(auth: Auth): Router {
  const { repository, addressOf, limits, forget } = auth;
  const change = route(async (request, response) => {
    const owner = await ownerOf(request);
    const { email, ...confirmation } = parse(EmailBody, await readBody(request, limits));
    await requireRecentSignIn(auth, owner, confirmation, clientOf(auth, request, response));
    const outcome = await repository.changeEmail(owner.id, email, addressOf(request)).catch(refuseRaised);
    if (outcome !== "changed") throw emailRefused(outcome);
    forget(owner.id);
    response.json({ email, message: "you sign in with the new e-mail from now on" });
  });
  return routes({ "/auth/email": { POST: change } });
}

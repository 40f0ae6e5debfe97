import type { IncomingMessage } from "node:http";
import { RestError } from "../conventions/problem.ts";
import { loginRequired } from "../resources/problem.ts";
import type { Auth } from "./auth.ts";

/**
 * The id of the user who looks after his own account. A key may not: whoever got hold of it would make keys that last, or a
 * second factor that locks its owner out. Rejects with RestError.
 */
export async function ownerOf(auth: Auth, request: IncomingMessage): Promise<string> {
  const { claims, credential } = await auth.callerOf(request);
  if (typeof claims.sub !== "string") throw loginRequired();
  if (credential?.kind === "key") throw notByKey();
  return claims.sub;
}

const notByKey = () =>
  new RestError({
    status: 403,
    code: "PERMISSION_DENIED",
    message: "a key may not look after the account: sign in with a token, a session or the password",
  });

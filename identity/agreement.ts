import type { IncomingMessage } from "node:http";
import type { Caller } from "../db/caller.ts";
import { unavailabilityOf } from "../db/errors.ts";
import { problem } from "../problems/problem.ts";
import { type Credentials, csrfTokenIn } from "./credentials.ts";
import { type IdentityContext, isAnonymous, type Proof } from "./proofs.ts";
import type { Sender } from "./sender.ts";

export type AgreementContext = Pick<IdentityContext, "anonymousRole" | "anonymous" | "store"> & {
  /** Whether the service key is accepted. */
  readonly hasServiceKey: boolean;
};

export type CredentialSender = {
  readonly request: IncomingMessage;
  readonly credentials: Credentials;
  readonly isSocket: boolean;
};

/**
 * The caller that all credentials agree on; null stands for a session that has ended. Throws Problem if they disagree, or if the caller
 * may not use them in this way.
 */
export function agreedCaller(
  callers: readonly (Caller | null)[],
  sender: CredentialSender,
  context: AgreementContext,
): Caller {
  const { anonymousRole, anonymous, hasServiceKey } = context;
  let agreed: Caller | null = null;
  for (const caller of callers) {
    if (caller === null) continue;
    if (caller.role === "service_role" && !hasServiceKey) throw problem("service key off");
    if (sender.request.headers.origin && caller.role === "service_role") throw problem("service key in browser");
    if (isAnonymous(caller, anonymousRole)) {
      // A credential that takes precedence over the service key is the anon key, which has fewer rights.
      if (agreed?.role === "service_role") throw problem("disagreement");
      continue;
    }
    if (agreed !== null && !isSame(agreed, caller)) throw problem("disagreement");
    // A cookie, which browsers send by themselves, proves less than a credential in another header.
    if (agreed === null || agreed.credential?.kind === "session") agreed = caller;
  }
  // The cookie may belong to another service on the same host, so it need not be valid if there is another credential.
  if (agreed === null && callers.includes(null)) throw problem("no session");
  const { keys, bearer, basic } = sender.credentials;
  // The claims of Authorization win over those of a key that agrees with it.
  const named = (bearer ?? basic) && callers.at(bearer === null ? -1 : keys.length);
  const caller = named && (agreed === null || isSame(named, agreed)) ? named : (agreed ?? callers[0] ?? anonymous);
  if (caller.role === "") throw problem("anonymous off");
  if (caller.credential?.kind === "session") refuseForgery(sender, context);
  return caller;
}

export const isSame = (one: Caller, other: Caller): boolean =>
  one.role === other.role && one.claims.sub === other.claims.sub;

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS", "QUERY"]);

/** A cookie alone does not prove who wrote the request. */
function refuseForgery({ request, credentials, isSocket }: CredentialSender, { store }: AgreementContext): void {
  const { method = "GET", headers } = request;
  // Every message of a WebSocket may change data, and browsers cannot send a CSRF token with the upgrade.
  if (isSocket) {
    if (!store!.isSameOrigin(headers)) throw problem("foreign page");
  } else if (!SAFE_METHODS.has(method)) {
    const token = csrfTokenIn(request);
    if (token === null || !store!.isCsrfToken(token, credentials.session!)) throw problem("no csrf token");
  }
}

/** The caller of each proof. Throws Problem. */
export function callersOf(proofs: readonly Proof[], sender: Sender): ReturnType<Proof["caller"]>[] {
  const found: ReturnType<Proof["caller"]>[] = [];
  try {
    for (const proof of proofs) found.push(proof.caller(sender));
  } catch (error) {
    // The lookups that have already started are no longer awaited.
    for (const caller of found) if (caller instanceof Promise) caller.catch(() => {});
    throw error;
  }
  return found;
}

/** Rejects with Problem also if the database cannot answer now. */
export const lookedUp = (callers: readonly (Caller | null | Promise<Caller | null>)[]): Promise<(Caller | null)[]> =>
  Promise.all(callers).catch((error) => {
    throw unavailabilityOf(error) ?? error;
  });

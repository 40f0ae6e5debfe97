import type { Problem } from "../../problems/problem.ts";
import type { BrowserSignIn, FailedCall, FailedSignIn } from "../../rest-gateway/auth/federated.ts";
import { noteEvent } from "../../rest-gateway/auth/repository.ts";
import { failureUrl } from "../../rest-gateway/auth/wires.ts";
import { isSignInFailure } from "./failure.ts";
import { urlOf } from "./provider.ts";
import type { FederatedServices } from "./services.ts";

/** Logs a sign-in that has failed. The page that it leads to gives no reason that would help an attacker; the log and the security event do. */
export async function reportFailure(
  services: FederatedServices,
  call: FailedCall,
  error: Problem,
): Promise<FailedSignIn> {
  const { start } = call.attempt;
  await report(services, call, error);
  const wire = start && services.wires.get(start.wire ?? "");
  return {
    url: wire ? failureUrl(wire, start.returnTo!, start.challenge, error) : null,
    retry: retryUrl(services, call.attempt),
    isJson: start?.mode === "token" && start.challenge === null,
  };
}

/** The client's page, if it has to create another challenge. */
function retryUrl({ url: baseUrl }: FederatedServices, { provider, start }: BrowserSignIn): string | null {
  if (provider === null || start === null) return null;
  if (start.challenge !== null) return start.returnTo;
  const url = new URL(urlOf({ baseUrl }, provider));
  if (start.returnTo !== null) url.searchParams.set("return_to", start.returnTo);
  return url.href;
}

async function report(
  services: FederatedServices,
  { response, client, attempt }: FailedCall,
  error: Problem,
): Promise<void> {
  const { provider, start } = attempt;
  if (!isSignInFailure(error)) return;
  const { reason } = error;
  const { detail } = error.more;
  const name = provider?.name ?? null;
  const requestId = response.get("X-Request-Id");
  services.log.warn({ requestId, provider: name, reason, detail }, "a sign-in at an identity provider has failed");
  // Only for sign-ins that have begun: other requests could fill the table.
  if (start === null || reason === "account disabled") return;
  const detailed = { provider: name, reason };
  const event = { event: "login_failed", userId: null, address: client.address, detail: detailed } as const;
  await noteEvent(services, event);
}

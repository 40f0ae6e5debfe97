import type { Kind } from "../../config/provider-entry.ts";
import { newSecret } from "../../identity/secrets.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { SignInRequest } from "../../rest-gateway/auth/federated.ts";
import { challengeOf } from "../../rest-gateway/auth/issue.ts";
import { keepOnce, takeOnce } from "../../rest-gateway/auth/one-time-values.ts";
import { type Recipient, sendContinuation } from "../../rest-gateway/auth/pages/page.ts";
import { askForCode, sendTokens, signInBrowser } from "../../rest-gateway/auth/pages/sign-in.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import type { AdmittedLogin } from "../../rest-gateway/auth/sign-in.ts";
import { issueCode } from "../../rest-gateway/auth/sign-in-codes.ts";
import { codeUrl, signedInUrl, type Wire } from "../../rest-gateway/auth/wires.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { admit, verifyResponse } from "./admission.ts";
import { type Confirmed, sealIdentity } from "./completion.ts";
import { signInFailure } from "./failure.ts";
import { browserOf, FLOW_SECONDS, type Flow, flowKey, isState, setBrowser } from "./flow.ts";
import type { ConfirmedIdentity, Provider } from "./provider.ts";
import { type FederatedServices, servicesOf } from "./services.ts";
import { parseSignInRequest } from "./sign-in-request.ts";

// `/auth/{kind}/{provider}`, where a browser starts and ends a sign-in at a provider.

/** Sends the browser to the provider. What the client wants is kept here, and not in the URL. */
export const startSignIn =
  (kind: Kind) =>
  async (call: Call): Promise<void> => {
    const provider = providerOf(call, kind);
    const start = parseSignInRequest(searchOf(call.request), call.auth.returnUrls);
    await beginSignIn(servicesOf(call.auth), call, provider, start);
  };

/** Redirects the browser to the provider, and binds what follows to it with a cookie. */
export async function beginSignIn(
  services: FederatedServices,
  { request, response }: Pick<Call, "request" | "response">,
  provider: Provider,
  start: SignInRequest,
): Promise<void> {
  const flow = services.flows.create();
  const url = await provider.begin(flow);
  // Sign-ins in several tabs share the cookie.
  const browser = browserOf(request, provider.sameSite) ?? newSecret();
  const key = flowKey(flow.state, browser, provider.settings.name);
  const data = { ...start, issuer: await services.providers.issuerOf(provider) };
  await keepOnce(services, "sign-in", key, data, services.clock() + FLOW_SECONDS * 1000);
  setBrowser(response, provider.sameSite, browser);
  response.redirect(302, url);
}

/** The provider that the path names. Throws Problem if there is none of this kind. */
export function providerOf({ auth, request, attempt }: Call, kind: Kind): Provider {
  const provider = servicesOf(auth).providers.find(String(request.params.provider), kind);
  attempt.provider = provider.settings;
  return provider;
}

/** Completes a sign-in with the response of the provider, in the URL. */
export const finishSignIn = (kind: Kind) => (call: Call) =>
  completeSignIn(call, kind, new URLSearchParams(searchOf(call.request)), "state");

/** Completes a sign-in with the response of the provider, which has the state in the parameter `stateName`. */
export async function completeSignIn(call: Call, kind: Kind, sent: URLSearchParams, stateName: string): Promise<void> {
  const { auth, response, client, attempt } = call;
  const services = servicesOf(auth);
  const provider = providerOf(call, kind);
  const { flow, start } = await takeFlow(call, provider, sent.get(stateName));
  attempt.start = start;
  const identity = await verifyResponse(services, client, () => provider.finish(sent, flow, auth));
  if (start.challenge !== null) return sendCode({ auth, response }, provider, identity, start);
  const login = await admit(services, provider, sealIdentity(services, identity), start.linking, client);
  const wire = wireOf(auth, start);
  if (wire !== null) return sendContinuation(call, await signedInUrl(call, wire, login, start.returnTo!));
  if (start.mode === "token") return answerTokens(call, login, start);
  await signInBrowser(call, login, start.returnTo);
}

/** The state of a sign-in that this browser has begun at this provider. It is taken: no response is accepted twice. */
async function takeFlow(
  { auth, request }: Call,
  provider: Provider,
  state: string | null,
): Promise<{ readonly flow: Flow; readonly start: SignInRequest }> {
  const { providers, flows } = servicesOf(auth);
  const browser = browserOf(request, provider.sameSite);
  if (!isState(state)) throw signInFailure("expired", "the response has no state, or a malformed one");
  if (browser === null) throw signInFailure("expired", "the browser has not sent its cookie");
  const key = flowKey(state, browser, provider.settings.name);
  const found = await takeOnce<SignInRequest & { readonly issuer: string }>(auth, "sign-in", key);
  if (found === null) throw signInFailure("expired", "this browser has no pending sign-in with this state");
  const { issuer, ...start } = found;
  if (issuer !== (await providers.issuerOf(provider)))
    throw signInFailure("expired", "the provider has changed meanwhile");
  return { flow: flows.of(state), start };
}

const OWN_WIRE = { codeParameter: "sign_in_code" };

/** The client exchanges the code for tokens, or links the identity, with the verifier that only the client knows. */
async function sendCode(
  to: Recipient,
  { settings }: Provider,
  identity: ConfirmedIdentity,
  start: SignInRequest,
): Promise<void> {
  const { mode, returnTo, challenge, linking } = start;
  const services = servicesOf(to.auth);
  const confirmed: Confirmed = { provider: settings.name, identity: sealIdentity(services, identity), linking };
  const wire = wireOf(to.auth, start) ?? OWN_WIRE;
  const code = await issueCode(services, confirmed, mode as "token" | "link", challenge!);
  sendContinuation(to, codeUrl(wire, code, returnTo!));
}

/** The other API at which a sign-in has begun; null for `/auth`. Throws for one that is not served any more. */
function wireOf(auth: Auth, { wire }: SignInRequest): Wire | null {
  if (wire === undefined) return null;
  const found = servicesOf(auth).wires.get(wire);
  if (found === undefined) throw signInFailure("expired", `the sign-in has begun at ${wire}, which is not served`);
  return found;
}

/** For programs that follow the redirects themselves. */
async function answerTokens(call: Call, login: AdmittedLogin, { returnTo }: SignInRequest): Promise<void> {
  const { auth, request } = call;
  if (!login.account.hasFactor) return sendTokens(call, login, returnTo);
  // A person in a browser, who cannot send the code to POST /auth/login.
  if (request.headers["sec-fetch-mode"] === "navigate") return askForCode(call, login, returnTo, "token");
  throw challengeOf(auth, login.account, login);
}

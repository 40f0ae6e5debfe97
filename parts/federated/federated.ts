import { createOutbound } from "../../identity/outbound.ts";
import { parse } from "../../rest-gateway/auth/bodies.ts";
import type { CreateFederated } from "../../rest-gateway/auth/federated.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import { deriveKey, SecretBox } from "../../rest-gateway/auth/secret-box.ts";
import { admitCode, admitIdToken } from "./admission.ts";
import { LinkBody } from "./bodies.ts";
import { beginSignIn } from "./browser.ts";
import { reportFailure } from "./browser-sign-in.ts";
import { Completion } from "./completion.ts";
import { Flows } from "./flow.ts";
import { linkIdentity, unlink } from "./identities.ts";
import { IdentityRepository } from "./identity-repository.ts";
import { protocolsIn } from "./protocol.ts";
import { Providers } from "./providers.ts";
import type { FederatedServices, OwnFederated } from "./services.ts";

export const createFederated: CreateFederated = (options): OwnFederated => {
  const { settings, url, functions, once, repository, throttle, forget, secret, clock, log, codes, wires } = options;
  const protocols = protocolsIn(options.providerKinds);
  const identities = new IdentityRepository(functions);
  const context = { baseUrl: url, outbound: createOutbound(settings), once, clock, log };
  const box = new SecretBox(deriveKey(secret, "identities"));
  const reader = settings.providers.with(protocols);
  const providers = new Providers({ reader, protocols, repository: identities, context, log });
  const services: FederatedServices = {
    ...{ url, providers, identities, wires, once, repository, throttle, forget, clock, log },
    flows: new Flows(secret),
    completion: new Completion({ identities, repository, codes, isClosed: !isSignupOpen(settings), box }),
  };
  return {
    services,
    load: () => providers.load(),
    list: () => providers.list().map((each) => each.settings),
    begin: (exchange, provider, start) => beginSignIn(services, exchange, providers.find(provider), start),
    admitCode: (code, verifier, client) => admitCode(services, code, verifier, client),
    issuesIdTokens: (provider) => providers.byName(provider)?.finishIdToken !== undefined,
    admitIdToken: (provider, token, linking, client) =>
      admitIdToken(services, providers.find(provider), token, linking, client),
    identitiesOf: (userId) => identities.list(userId),
    link: (call) => linkIdentity({ ...call, body: parse(LinkBody, call.body) }),
    unlink: (signIn, id, client) => unlink(services, signIn, id, client),
    reportFailure: (call, error) => reportFailure(services, call, error),
  };
};

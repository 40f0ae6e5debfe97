import { createOutbound } from "../../identity/outbound.ts";
import { parse } from "../../rest-gateway/auth/bodies.ts";
import type { CreateFederated } from "../../rest-gateway/auth/federated.ts";
import { deriveKey, SecretBox } from "../../rest-gateway/auth/secret-box.ts";
import { admitCode, admitIdToken } from "./admission.ts";
import { LinkBody } from "./bodies.ts";
import { beginSignIn } from "./browser.ts";
import { reportFailure } from "./browser-sign-in.ts";
import { Flows } from "./flow.ts";
import { linkIdentity, listLinked, unlink } from "./identities.ts";
import { protocolsIn } from "./protocol.ts";
import { Providers } from "./providers.ts";
import { type OwnFederated, servicesOf } from "./services.ts";

export const createFederated: CreateFederated = (options): OwnFederated => {
  const { settings, url, functions, secret, clock, log } = options;
  const protocols = protocolsIn(options.providerKinds);
  const context = { baseUrl: url, outbound: createOutbound(settings), clock, log };
  const reader = settings.providers.with(protocols);
  const providers = new Providers({ reader, protocols, functions, context, log });
  const box = new SecretBox(deriveKey(secret, "identities"));
  return {
    shared: { providers, flows: new Flows(secret), box, log },
    load: () => providers.load(),
    list: () => providers.list().map((each) => each.settings),
    begin: (exchange, provider, start) =>
      beginSignIn(servicesOf(exchange.auth), exchange, providers.find(provider), start),
    admitCode: (auth, code, verifier, client) => admitCode(servicesOf(auth), code, verifier, client),
    issuesIdTokens: (provider) => providers.byName(provider)?.finishIdToken !== undefined,
    admitIdToken: ({ auth, client }, provider, token, linking) =>
      admitIdToken(servicesOf(auth), providers.find(provider), token, linking, client),
    identitiesOf: (auth, userId) => listLinked(auth, userId),
    link: (call) => linkIdentity({ ...call, body: parse(LinkBody, call.body) }),
    unlink: (auth, signIn, id, client) => unlink(servicesOf(auth), signIn, id, client),
    reportFailure: (call, error) => reportFailure(servicesOf(call.auth), call, error),
  };
};

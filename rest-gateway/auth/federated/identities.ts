import type { Router } from "express";
import { problem } from "../../../db/problems/problem.ts";
import { isUuid } from "../../conventions/parameters.ts";
import { invalidId } from "../../conventions/problem.ts";
import type { Auth } from "../auth.ts";
import { LinkBody, parse, readBody, SignInCodeBody } from "../bodies.ts";
import { isRecent, requireRecentSignIn } from "../confirmation.ts";
import { clientOf, currentSignInOf, ownerOf, route, routes } from "../route.ts";
import { challengeOf, startTokens } from "../tokens.ts";
import type { Provider } from "./provider.ts";

/** Identities that one account may have. */
const MAX_IDENTITIES = 20;

/** `/auth/providers`, `/auth/identities` and `/auth/federated/token`: what clients request in JSON. */
export function identitiesRouter(auth: Auth): Router {
  const { federated, addressOf, limits, forget, settings } = auth;
  const { providers, identities, completion } = federated;

  const listProviders = route(async (_request, response) => {
    response.json({ data: providers.list().map(describeProvider) });
  });

  /** Exchanges a sign-in code for tokens. */
  const exchange = route(async (request, response) => {
    const { signInCode, codeVerifier } = parse(SignInCodeBody, await readBody(request, limits));
    const confirmed = requireCode(await completion.takeCode(signInCode, "token", codeVerifier));
    const provider = requireCode(findByName(confirmed.provider));
    const address = addressOf(request);
    const account = await completion.accountOf(confirmed.identity, provider, address);
    if (account.hasFactor) throw challengeOf(auth, account);
    response.json(await startTokens(auth, account, { attempt: [], address, provider: provider.settings.name }));
  });

  const list = route(async (request, response) => {
    response.json({ data: await identities.list((await ownerOf(request)).id) });
  });

  const link = route(async (request, response) => {
    const owner = await ownerOf(request);
    const { signInCode, codeVerifier, ...confirmation } = parse(LinkBody, await readBody(request, limits));
    // From then on, the identity signs in.
    await requireRecentSignIn(auth, owner, confirmation, clientOf(auth, request, response));
    const { provider, identity } = requireCode(await completion.takeCode(signInCode, "link", codeVerifier));
    const linked = await identities.link(owner.id, identity, provider, MAX_IDENTITIES, addressOf(request));
    if (linked.outcome === "changed") throw problem("revoked token");
    if (linked.outcome !== "linked") throw LINK_REFUSALS[linked.outcome]();
    forget(owner.id);
    const found = (await identities.list(owner.id)).find(({ id }) => id === linked.id);
    response.status(201).location(`/auth/identities/${linked.id}`).json(found);
  });

  const unlink = route(async (request, response) => {
    const owner = await ownerOf(request);
    const id = idOf(request.params.id);
    // The request has no body that could confirm it.
    if (!isRecent(auth, owner)) throw problem("recent sign-in required", { seconds: settings.recentSignIn });
    const outcome = await identities.unlink(currentSignInOf(owner), id, await providers.issuers(), addressOf(request));
    if (outcome === "changed") throw problem("revoked token");
    if (outcome === "missing") throw problem("no such identity");
    if (outcome === "last") throw problem("last way to sign in");
    forget(owner.id);
    response.status(204).end();
  });

  /** Null if the provider was removed after it had confirmed the identity. */
  const findByName = (name: string): Provider | null =>
    providers.list().find(({ settings }) => settings.name === name) ?? null;

  return routes({
    "/auth/providers": { GET: listProviders },
    "/auth/federated/token": { POST: exchange },
    "/auth/identities": { GET: list, POST: link },
    "/auth/identities/:id": { DELETE: unlink },
  });
}

const describeProvider = ({ settings: { name, title, kind } }: Provider) => ({
  name,
  title,
  kind,
  signIn: `/auth/${kind}/${name}`,
});

function requireCode<Found>(found: Found | null): Found {
  if (found !== null) return found;
  throw problem("invalid sign-in code");
}

function idOf(text: unknown): string {
  const id = String(text);
  if (isUuid(id)) return id.toLowerCase();
  throw invalidId(id, "identity id: it must be a UUID", { field: "id", message: "must be a UUID" });
}

const LINK_REFUSALS = {
  taken: () => problem("identity taken"),
  "too many": () => problem("too many identities", { max: MAX_IDENTITIES }),
};

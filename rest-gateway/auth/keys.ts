import type { Request, Router } from "express";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { isUuid } from "../conventions/parameters.ts";
import type { Auth } from "./auth.ts";
import { KeyBody, parse, readBody } from "./bodies.ts";
import { requireRecentSignIn } from "./confirmation.ts";
import { invalidKeyId, noSuchKey, tooManyKeys } from "./problem.ts";
import { clientOf, ownerOf, route, routes } from "./route.ts";

/** `/auth/keys`: the API keys of the signed-in user. */
export function keysRouter(auth: Auth): Router {
  const { repository, keys, clock, limits, addressOf, settings } = auth;

  const list = route(async (request, response) => {
    response.json({ data: await keys.list((await ownerOf(request)).id) });
  });

  const create = route(async (request, response) => {
    const owner = await ownerOf(request);
    const { name, expiresIn, ...confirmation } = parse(KeyBody, await readBody(request, limits));
    // A key outlives the token that creates it.
    await requireRecentSignIn(auth, owner, confirmation, clientOf(auth, request, response));
    const { id: userId } = owner;
    const { key, prefix } = newKey("user");
    const expiresAt = expiresIn === null ? null : clock() + expiresIn * 1000;
    const made = await keys.create(userId, { name, prefix, hash: hashOf(key), expiresAt }, settings.apiKeysMax);
    if (made === null) throw tooManyKeys(settings.apiKeysMax);
    await repository.note({ event: "key_created", userId, address: addressOf(request), detail: { key: made.id } });
    const { id, ...described } = made;
    response
      .status(201)
      .location(`/auth/keys/${id}`)
      .json({ id, key, ...described });
  });

  const read = route(async (request, response) => {
    const { id: userId } = await ownerOf(request);
    const id = idOf(request);
    const found = (await keys.list(userId)).find((key) => key.id === id);
    if (found === undefined) throw noSuchKey();
    response.json(found);
  });

  const revoke = route(async (request, response) => {
    const { id: userId } = await ownerOf(request);
    const id = idOf(request);
    if (!(await keys.revoke(userId, id))) throw noSuchKey();
    await repository.note({ event: "key_revoked", userId, address: addressOf(request), detail: { key: id } });
    response.status(204).end();
  });

  return routes({
    "/auth/keys": { GET: list, POST: create },
    "/auth/keys/:id": { GET: read, DELETE: revoke },
  });
}

function idOf({ params }: Request): string {
  const id = String(params.id);
  if (!isUuid(id)) throw invalidKeyId(id);
  return id.toLowerCase();
}

import { type Request, Router } from "express";
import { byMethod } from "../../http/express.ts";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { isUuid } from "../conventions/parameters.ts";
import type { Auth } from "./auth.ts";
import { readBody } from "./body.ts";
import { parseKey } from "./keys-input.ts";
import { ownerOf } from "./owner.ts";
import { invalidKeyId, noSuchKey, tooManyKeys } from "./problem.ts";
import { route } from "./route.ts";

/** `/auth/keys`: the keys that a user has made for his programs. */
export function keysRouter(auth: Auth): Router {
  const { store, clock, limits, addressOf, settings } = auth;

  const list = route(async (request, response) => {
    response.json({ data: await store.listKeys(await ownerOf(request)) });
  });

  const create = route(async (request, response) => {
    const userId = await ownerOf(request);
    const { name, expiresIn } = parseKey(await readBody(request, limits));
    const { key, prefix } = newKey("user");
    const expiresAt = expiresIn === null ? null : clock() + expiresIn * 1000;
    const made = await store.createKey(
      "user",
      userId,
      { name, prefix, hash: hashOf(key), expiresAt },
      settings.apiKeysMax,
    );
    if (made === null) throw tooManyKeys(settings.apiKeysMax);
    await store.note({ event: "key_created", userId, address: addressOf(request), detail: { key: made.id } });
    const { id, ...described } = made;
    response
      .status(201)
      .location(`/auth/keys/${id}`)
      .json({ id, key, ...described });
  });

  const read = route(async (request, response) => {
    const userId = await ownerOf(request);
    const id = idOf(request);
    const found = (await store.listKeys(userId)).find((key) => key.id === id);
    if (found === undefined) throw noSuchKey();
    response.json(found);
  });

  const revoke = route(async (request, response) => {
    const userId = await ownerOf(request);
    const id = idOf(request);
    if (!(await store.revokeKey(userId, id))) throw noSuchKey();
    await store.note({ event: "key_revoked", userId, address: addressOf(request), detail: { key: id } });
    response.status(204).end();
  });

  const router = Router({ strict: true, caseSensitive: true });
  router.all("/auth/keys", byMethod({ GET: list, POST: create }));
  router.all("/auth/keys/:id", byMethod({ GET: read, DELETE: revoke }));
  return router;
}

function idOf({ params }: Request): string {
  const id = String(params.id);
  if (!isUuid(id)) throw invalidKeyId(id);
  return id.toLowerCase();
}

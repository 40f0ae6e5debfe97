import { type Request, Router } from "express";
import { readJson } from "../../http/body.ts";
import { byMethod } from "../../http/methods.ts";
import { RestError } from "../conventions/problem.ts";
import { hashOf, newKey } from "../principal/secrets.ts";
import { isUuid } from "../resources/parse/id.ts";
import type { Auth } from "./auth.ts";
import { parseKey } from "./keys-input.ts";
import { ownerOf } from "./owner.ts";
import { route } from "./route.ts";

/** `/auth/keys`: the keys that a user has made for his programs. */
export function keysRouter(auth: Auth): Router {
  const { store, clock, limits, addressOf, settings } = auth;

  const list = route(async (request, response) => {
    response.json({ data: await store.listKeys(await ownerOf(auth, request)) });
  });

  const create = route(async (request, response) => {
    const userId = await ownerOf(auth, request);
    const { name, expiresIn } = parseKey(await readJson(request, limits));
    const { key, prefix } = newKey("user");
    const expiresAt = expiresIn === null ? null : clock() + expiresIn * 1000;
    const made = await store.createKey(
      "user",
      userId,
      { name, prefix, hash: hashOf(key), expiresAt },
      settings.maxKeys,
    );
    if (made === null) throw tooManyKeys(settings.maxKeys);
    await store.note({ event: "key_created", userId, address: addressOf(request), detail: { key: made.id } });
    const { id, ...described } = made;
    response
      .status(201)
      .location(`/auth/keys/${id}`)
      .json({ id, key, ...described });
  });

  const read = route(async (request, response) => {
    const userId = await ownerOf(auth, request);
    const id = idOf(request);
    const found = (await store.listKeys(userId)).find((key) => key.id === id);
    if (found === undefined) throw noSuchKey();
    response.json(found);
  });

  const revoke = route(async (request, response) => {
    const userId = await ownerOf(auth, request);
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
  if (!isUuid(id)) throw invalidId(id);
  return id.toLowerCase();
}

const invalidId = (text: string) =>
  new RestError({
    status: 400,
    code: "INVALID_ID",
    message: `"${text.slice(0, 50)}" is no id of keys: it must be a UUID`,
    faults: [{ field: "id", message: "must be an id" }],
  });

const noSuchKey = () =>
  new RestError({ status: 404, code: "RESOURCE_NOT_FOUND", message: "there is no key with this id" });

const tooManyKeys = (max: number) =>
  new RestError({ status: 409, code: "RESOURCE_CONFLICT", message: `there are ${max} keys already: delete one first` });

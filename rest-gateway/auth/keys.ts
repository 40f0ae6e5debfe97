import type { Request, Router } from "express";
import { problem } from "../../db/problems/problem.ts";
import type { FoundKey } from "../../identity/account.ts";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { isUuid } from "../conventions/parameters.ts";
import { invalidId } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { KeyBody, parse, readBody } from "./bodies.ts";
import { requireRecentSignIn } from "./confirmation.ts";
import { type AuthFunctions, bytes, time } from "./functions.ts";
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
    if (made === null) throw problem("too many keys", { max: settings.apiKeysMax });
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
    if (found === undefined) throw problem("no such key");
    response.json(found);
  });

  const revoke = route(async (request, response) => {
    const { id: userId } = await ownerOf(request);
    const id = idOf(request);
    if (!(await keys.revoke(userId, id))) throw problem("no such key");
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
  if (!isUuid(id)) throw invalidId(id, "key id: it must be a UUID", { field: "id", message: "must be a UUID" });
  return id.toLowerCase();
}

/** A key as its owner reads it, without the key itself. */
type KeyDescription = {
  readonly id: string;
  readonly prefix: string;
  readonly name: string;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly lastUsedAt: string | null;
};

export class KeyRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /** Returns null if the user already has `maxKeys` valid keys, or has no account. */
  create(
    userId: string,
    key: { readonly name: string; readonly prefix: string; readonly hash: Buffer; readonly expiresAt: number | null },
    maxKeys: number,
  ): Promise<KeyDescription | null> {
    const { name, prefix, hash, expiresAt } = key;
    const end = expiresAt === null ? null : time(expiresAt);
    const values = [userId, name, prefix, bytes(hash), this.#functions.now(), end, String(maxKeys)];
    const call = "create_key('user', $1::bigint, $2, $3, $4::bytea, $5::timestamptz, $6::timestamptz, $7::integer)";
    return this.#functions.call(call, values);
  }

  list(userId: string): Promise<readonly KeyDescription[]> {
    return this.#functions.call("list_keys($1::bigint)", [userId]);
  }

  revoke(userId: string, id: string): Promise<boolean> {
    return this.#functions.call("revoke_key($1::bigint, $2::uuid)", [userId, id]);
  }

  find(hash: Buffer): Promise<FoundKey | null> {
    return this.#functions.call("find_key($1::bytea)", [bytes(hash)]);
  }

  async use(ids: readonly string[]): Promise<void> {
    await this.#functions.call("use_keys($1::uuid[])", [`{${ids.join()}}`]);
  }
}

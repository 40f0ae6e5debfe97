import type { z } from "zod";
import type { FoundKey } from "../../identity/account.ts";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { KeyAnswer } from "./answers.ts";
import type { KeyBody } from "./bodies.ts";
import { refuseAnonymous, requireRecentSignIn } from "./confirmation.ts";
import { type AuthFunctions, bytes, time } from "./functions.ts";
import { noteEvent } from "./repository.ts";
import { type Call, currentSignInOf } from "./route.ts";
import type { CurrentSignIn } from "./session-repository.ts";

export const listKeys = async ({ auth, signedIn }: Call<"account">) => ({ data: await auth.keys.list(signedIn.id) });

export async function createKey({ auth, client, signedIn, body }: Call<"account", z.infer<typeof KeyBody>>) {
  const { keys, clock, settings } = auth;
  const { name, expiresIn, ...confirmation } = body;
  refuseAnonymous(signedIn);
  // A key outlives the token that creates it.
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const { id: userId } = signedIn;
  const signIn = currentSignInOf(signedIn);
  const { key, prefix } = newKey("user");
  const expiresAt = expiresIn === null ? null : clock() + expiresIn * 1000;
  const made = await keys.create(signIn, { name, prefix, hash: hashOf(key), expiresAt }, settings.apiKeysMax);
  if (made === "ended") throw problem("revoked token");
  if (made === null) throw problem("too many keys", { max: settings.apiKeysMax });
  await noteEvent(auth, { event: "key_created", userId, address: client.address, detail: { key: made.id } });
  const { id, ...described } = made;
  return { id, key, ...described };
}

export async function readKey({ auth, signedIn, id }: Call<"account">) {
  const found = (await auth.keys.list(signedIn.id)).find((key) => key.id === id);
  if (found === undefined) throw problem("no such key");
  return found;
}

export async function deleteKey({ auth, client: { address }, signedIn: { id: userId }, id }: Call<"account">) {
  if (!(await auth.keys.revoke(userId, id))) throw problem("no such key");
  await noteEvent(auth, { event: "key_revoked", userId, address, detail: { key: id } });
}

/** A key as its owner reads it, without the key itself. */
type KeyDescription = z.infer<typeof KeyAnswer>;

export class KeyRepository {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /** Returns null if the user already has `maxKeys` valid keys, and "ended" if the sign-in has ended. */
  create(
    { id: userId, session }: CurrentSignIn,
    key: { readonly name: string; readonly prefix: string; readonly hash: Buffer; readonly expiresAt: number | null },
    maxKeys: number,
  ): Promise<KeyDescription | "ended" | null> {
    const { name, prefix, hash, expiresAt } = key;
    const end = expiresAt === null ? null : time(expiresAt);
    const values = [userId, name, prefix, bytes(hash), this.#functions.now(), end, String(maxKeys), session];
    const call = "create_key('user', $1, $2, $3, $4::bytea, $5::timestamptz, $6::timestamptz, $7::integer, $8::uuid)";
    return this.#functions.call(call, values);
  }

  list(userId: string): Promise<readonly KeyDescription[]> {
    return this.#functions.call("list_keys($1)", [userId]);
  }

  revoke(userId: string, id: string): Promise<boolean> {
    return this.#functions.call("revoke_key($1, $2::uuid)", [userId, id]);
  }

  find(hash: Buffer): Promise<FoundKey | null> {
    return this.#functions.call("find_key($1::bytea)", [bytes(hash)]);
  }

  async use(ids: readonly string[]): Promise<void> {
    await this.#functions.call("use_keys($1::uuid[])", [`{${ids.join()}}`]);
  }
}

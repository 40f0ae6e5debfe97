import type { z } from "zod";
import { hashOf, newKey } from "../../identity/secrets.ts";
import { problem } from "../../problems/problem.ts";
import type { KeyAnswer } from "./answers.ts";
import type { KeyBody } from "./bodies.ts";
import { refuseAnonymous, requireRecentSignIn } from "./confirmation.ts";
import { bytes, type Database } from "./functions.ts";
import { noteEvent } from "./repository.ts";
import { type Call, currentSignInOf } from "./route.ts";

export const listKeys = async ({ auth, signedIn }: Call<"account">) => ({ data: await keysOf(auth, signedIn.id) });

/** A key as its owner reads it, without the key itself. */
type KeyDescription = z.infer<typeof KeyAnswer>;

const keysOf = ({ functions }: Database, userId: string): Promise<readonly KeyDescription[]> =>
  functions.call("list_keys($1)", [userId]);

export async function createKey({ auth, client, signedIn, body }: Call<"account", z.infer<typeof KeyBody>>) {
  const { functions, settings } = auth;
  const { name, expiresIn, ...confirmation } = body;
  refuseAnonymous(signedIn);
  // A key outlives the token that creates it.
  await requireRecentSignIn(auth, signedIn, confirmation, client);
  const { id: userId, session } = currentSignInOf(signedIn);
  const { key, prefix } = newKey("user");
  const end = expiresIn === null ? null : functions.now(expiresIn * 1000);
  const max = settings.apiKeysMax;
  const values = [userId, name, prefix, bytes(hashOf(key)), functions.now(), end, String(max), session];
  const types = "$1, $2, $3, $4::bytea, $5::timestamptz, $6::timestamptz, $7::integer, $8::uuid";
  const made = await functions.call<KeyDescription | "ended" | null>(`create_key('user', ${types})`, values);
  if (made === "ended") throw problem("revoked token");
  if (made === null) throw problem("too many keys", { max });
  await noteEvent(auth, { event: "key_created", userId, address: client.address, detail: { key: made.id } });
  const { id, ...described } = made;
  return { id, key, ...described };
}

export async function readKey({ auth, signedIn, id }: Call<"account">) {
  const found = (await keysOf(auth, signedIn.id)).find((key) => key.id === id);
  if (found === undefined) throw problem("no such key");
  return found;
}

export async function deleteKey({ auth, client: { address }, signedIn: { id: userId }, id }: Call<"account">) {
  const isRevoked = await auth.functions.call<boolean>("revoke_key($1, $2::uuid)", [userId, id]);
  if (!isRevoked) throw problem("no such key");
  await noteEvent(auth, { event: "key_revoked", userId, address, detail: { key: id } });
}

/** Stores that keys have been used. */
export async function useKeys({ functions }: Database, ids: readonly string[]): Promise<void> {
  await functions.call("use_keys($1::uuid[])", [`{${ids.join()}}`]);
}

import type { FoundKey } from "../../identity/account.ts";
import { type AuthFunctions, bytes, time } from "./functions.ts";

/** A key as its owner reads it, without the key itself. */
export type KeyDescription = {
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

import { type AuthFunctions, byteArray, bytes } from "../../rest-gateway/auth/functions.ts";
import type { PasskeyRow, PasskeyRows } from "../../rest-gateway/auth/passkeys/passkeys.ts";
import type { CurrentSignIn } from "../../rest-gateway/auth/session-repository.ts";

/** A passkey by its credential. `handle` is how authenticators name its user; `publicKey` is hex. */
export type KnownPasskey = {
  readonly id: string;
  readonly userId: string;
  readonly handle: string;
  readonly publicKey: string;
};

/** A passkey whose registration was verified, and the id of its challenge. */
export type NewPasskey = {
  readonly credentialId: Buffer;
  readonly publicKey: Buffer;
  readonly counter: number;
  readonly transports: readonly string[];
  readonly isSynced: boolean;
  readonly challenge: string;
};

export type AddedPasskey =
  | { readonly outcome: "added"; readonly id: string; readonly isFirst: boolean }
  | { readonly outcome: "ended" | "spent" | "full" | "taken" };

export class PasskeyRepository implements PasskeyRows {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  list(userId: string): Promise<readonly PasskeyRow[]> {
    return this.#functions.call("list_passkeys($1)", [userId]);
  }

  /** The passkeys of a user, and how authenticators name the user. */
  async ofUser(userId: string): Promise<{ readonly handle: string; readonly passkeys: readonly PasskeyRow[] }> {
    const calls = ["passkey_handle($1)", "list_passkeys($1)"].map((call) => ({ call, values: [userId] }));
    const [handle, passkeys] = await this.#functions.run(...calls);
    return { handle: handle as string, passkeys: passkeys as readonly PasskeyRow[] };
  }

  find(credentialId: Buffer): Promise<KnownPasskey | null> {
    return this.#functions.call("find_passkey($1::bytea)", [bytes(credentialId)]);
  }

  isSpent(challenge: string): Promise<boolean> {
    return this.#functions.call("is_spent($1::uuid)", [challenge]);
  }

  /** The first second factor of the user stores the backup codes, and ends all sign-ins except the given one. */
  add(
    { id, session }: CurrentSignIn,
    { challenge, ...passkey }: NewPasskey & { readonly name: string; readonly id?: string },
    codes: readonly Buffer[],
    max: number,
    address: string,
  ): Promise<AddedPasskey> {
    const row = JSON.stringify({
      ...passkey,
      credentialId: passkey.credentialId.toString("hex"),
      publicKey: passkey.publicKey.toString("hex"),
    });
    const values = [id, session, row, challenge, byteArray(codes), String(max), address || null];
    const types = "$1, $2::uuid, $3::jsonb, $4::uuid, $5::bytea[], $6::integer, $7::inet, $8::timestamptz";
    return this.#functions.change(`add_passkey(${types})`, [...values, this.#functions.now()]);
  }

  rename(userId: string, id: string, name: string): Promise<boolean> {
    return this.#functions.call("rename_passkey($1, $2::uuid, $3)", [userId, id, name]);
  }
}

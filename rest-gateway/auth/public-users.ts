import type { Account } from "../../identity/account.ts";
import { type AuthFunctions, bytes, type Call, time } from "./functions.ts";
import type { Method, UsedMethod } from "./session-repository.ts";

/** A user as the wire shows it. */
export type PublicUser = {
  readonly id: string;
  readonly email: string;
  readonly created_at: string;
  readonly email_confirmed_at?: string;
  readonly app_metadata: Readonly<Record<string, unknown>>;
  readonly user_metadata: Readonly<Record<string, unknown>>;
  readonly is_anonymous: boolean;
  readonly factors?: readonly PublicFactor[];
  readonly [field: string]: unknown;
};

export type PublicFactor = {
  readonly id: string;
  readonly friendly_name: string;
  readonly factor_type: "totp" | "webauthn";
  readonly status: "verified" | "unverified";
};

/** A session that has proved the second factor. */
export type RaisedSession = Pick<SignedInUser, "user" | "account" | "aal" | "startedAt"> & {
  readonly methods: readonly UsedMethod[];
};

export type SignedInUser = {
  readonly user: PublicUser;
  readonly account: Account;
  readonly aal: 1 | 2;
  /** When the user signed in, in ISO 8601. */
  readonly startedAt: string;
};

/** Users as `/auth/v1` shows and changes them. */
export class PublicUsers {
  readonly #functions: AuthFunctions;

  constructor(functions: AuthFunctions) {
    this.#functions = functions;
  }

  /** The call that reads a user, for the round trip of another one. */
  reading(userId: string | null): Call {
    return { call: "public_user($1)", values: [userId] };
  }

  async find(userId: string | null): Promise<PublicUser | null> {
    const { call, values } = this.reading(userId);
    return this.#functions.call(call, values);
  }

  /** The user of a session. Returns null if it has ended. */
  signedInUser(userId: string, session: string): Promise<SignedInUser | null> {
    return this.#functions.call("signed_in_user($1, $2::uuid)", [userId, session]);
  }

  /** Records that a session has proved a second factor, and replaces its refresh token. Returns null if it has ended. */
  raiseSession(
    { userId, session }: { readonly userId: string; readonly session: string },
    method: Method,
    tokenHash: Buffer,
    expiresAt: number,
  ): Promise<RaisedSession | null> {
    const values = [userId, session, method, bytes(tokenHash), this.#functions.now(), time(expiresAt)];
    return this.#functions.call("raise_session($1, $2::uuid, $3, $4::bytea, $5::timestamptz, $6::timestamptz)", values);
  }

  async removeFactor(
    { userId, session }: { readonly userId: string; readonly session: string },
    id: string,
    address: string,
  ): Promise<void> {
    const values = [userId, session, id, address || null, this.#functions.now()];
    await this.#functions.call("remove_factor($1, $2::uuid, $3::uuid, $4::inet, $5::timestamptz)", values);
  }

  /** Changes the metadata that the user writes; null deletes a key. Returns false if it would have more than `max` bytes. */
  mergeMetadata(userId: string, changes: object, max: number): Promise<boolean> {
    const values = [userId, JSON.stringify(changes), String(max)];
    return this.#functions.call("merge_user_metadata($1, $2::jsonb, $3::integer)", values);
  }
}

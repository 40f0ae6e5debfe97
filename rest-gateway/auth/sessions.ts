import type { Account, Clock, Session } from "../../identity/account.ts";
import type { Credentials } from "../../identity/credentials.ts";
import type { LookupCache } from "../../identity/lookup-cache.ts";
import { RefusedError } from "../../identity/refused.ts";
import { hashOf, newSecret } from "../../identity/secrets.ts";
import type { AuthStore } from "./repository.ts";

export type SessionsOptions = {
  readonly store: AuthStore;
  /** By the SHA-256 in hex. To look there is to be seen, which moves the end of a session that nobody uses. */
  readonly known: LookupCache<Session | null>;
  readonly clock: Clock;
  /** Seconds that a session lasts at most. */
  readonly maxAge: number;
};

/** `id` is what the cookie holds; the database knows its hash alone. */
export type CurrentSession = Session & { readonly id: string };

/** Who is signed in by cookie: one session for each user, under an id that nobody has had before. */
export class Sessions {
  readonly #options: SessionsOptions;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** The new id. Rejects with RefusedError when the account has changed since it was found. */
  async begin(account: Account): Promise<string> {
    const { store, clock, maxAge } = this.#options;
    const id = newSecret();
    const hasBegun = await store.startSession(account, hashOf(id), clock() + maxAge * 1000);
    if (!hasBegun) throw new RefusedError("wrong password");
    return id;
  }

  /** That of the cookie; null without one, and when it has ended. */
  async of({ session: id }: Credentials): Promise<CurrentSession | null> {
    const session = id && (await this.#options.known.get(keyOf(id)));
    return session ? { ...session, id: id! } : null;
  }

  async end(id: string): Promise<void> {
    const { store, known } = this.#options;
    await store.endSession(hashOf(id));
    // The database tells it too, a moment later.
    known.delete(keyOf(id));
  }
}

const keyOf = (id: string) => hashOf(id).toString("hex");

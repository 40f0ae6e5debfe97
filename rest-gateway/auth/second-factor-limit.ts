import { createHash } from "node:crypto";
import { RefusedError } from "../principal/refused.ts";
import type { AuthStore } from "./store.ts";
import type { Attempt } from "./throttle.ts";

export type CodeLimits = {
  /** Wrong codes of one user within the window. */
  readonly attempts: number;
  /** Seconds. */
  readonly window: number;
};

/** Holds up those who guess codes. They know the password already: the user alone counts, and no address helps them. */
export class CodeLimit {
  readonly #store: Pick<AuthStore, "reserveAttempt" | "forgiveAttempt">;
  readonly #limits: CodeLimits;

  constructor(store: Pick<AuthStore, "reserveAttempt" | "forgiveAttempt">, limits: CodeLimits) {
    this.#store = store;
    this.#limits = limits;
  }

  /** Rejects with RefusedError "too many attempts". */
  async attempt(userId: string): Promise<Pick<Attempt, "forgive">> {
    const { attempts, window } = this.#limits;
    const key = createHash("sha256")
      .update(JSON.stringify(["factor", userId]))
      .digest();
    const reserved = await this.#store.reserveAttempt([[key, attempts]], window);
    if ("retryAfter" in reserved) throw new RefusedError("too many attempts", { retryAfter: reserved.retryAfter });
    return { forgive: () => this.#store.forgiveAttempt(reserved.ids) };
  }
}

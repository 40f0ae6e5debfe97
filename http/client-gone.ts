import type { ServerResponse } from "node:http";
import type { CancelSignal } from "../db/transaction.ts";

/** Aborted when the client goes away before it got its answer. Every request makes one: an AbortController costs more. */
export class ClientGone implements CancelSignal {
  reason: Error | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(response: ServerResponse) {
    if (response.destroyed) this.#abort();
    response.once("close", () => {
      if (!response.writableFinished) this.#abort();
    });
  }

  get aborted(): boolean {
    return this.reason !== undefined;
  }

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  #abort(): void {
    this.reason = new Error("the client has gone away");
    for (const listener of this.#listeners) listener();
  }
}

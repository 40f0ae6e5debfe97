import { AsyncLocalStorage } from "node:async_hooks";
import { Recipient } from "../db/admission/byte-budget.ts";
import { networkOf } from "../db/network.ts";

/** Who has sent a request, as far as it is known before its credentials are verified. */
type Sender = {
  /** The IP address. */
  readonly address: string;
};

const work = new AsyncLocalStorage<{ readonly sender: Sender; hasBegun: boolean }>();

/** Runs work of a request that has no caller yet, or none at all: sign-in, and lookups of credentials. */
export const forSender = <Result>(sender: Sender, run: () => Result): Result =>
  work.run({ sender, hasBegun: false }, run);

/** The sender as the client of its next transaction. Null for background work. Close it after the transaction. */
export function recipientOfSender(): Recipient | null {
  const current = work.getStore();
  if (current === undefined) return null;
  const network = networkOf(current.sender.address);
  const recipient = new Recipient(network, network, { isContinued: current.hasBegun });
  current.hasBegun = true;
  return recipient;
}

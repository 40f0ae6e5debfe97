import { Recipient } from "../db/admission/byte-budget.ts";
import { networkOf } from "../db/network.ts";

/** Who has sent a request, as far as it is known before its credentials are verified. Its transactions count for the network. */
export class Sender {
  /** The IP address. */
  readonly address: string;
  #hasBegun = false;

  constructor(address: string) {
    this.address = address;
  }

  /** The client of the next transaction. Close it after the transaction. */
  recipient(): Recipient {
    const network = networkOf(this.address);
    const recipient = new Recipient(network, network, { isContinued: this.#hasBegun });
    this.#hasBegun = true;
    return recipient;
  }
}

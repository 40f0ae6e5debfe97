import type { ServerResponse } from "node:http";
import type { Caller } from "../db/caller.ts";
import { Recipient } from "../db/recipient.ts";
import type { RequestIdentity } from "../identity/caller-resolver.ts";
import { networkOf } from "./rate-limit.ts";

/** The client of a request, as the limits count it. It must be closed when the client has taken all results. */
export function recipientOf(identity: RequestIdentity, caller: Caller): Recipient {
  const network = networkOf(identity.address);
  return new Recipient(identity.nameOf(caller) ?? network, network);
}

/** The client that waits for a response. It is closed with the response: when all of it is sent, or the client has disconnected. */
export function recipientOfResponse(response: ServerResponse, identity: RequestIdentity, caller: Caller): Recipient {
  const recipient = recipientOf(identity, caller);
  if (response.destroyed) recipient.close();
  response.once("close", () => recipient.close());
  return recipient;
}

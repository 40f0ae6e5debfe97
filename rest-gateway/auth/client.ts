import type { IncomingMessage, ServerResponse } from "node:http";
import { ClientGone } from "../../http/response.ts";
import type { Auth } from "./auth.ts";
import type { Client } from "./throttle.ts";

/** Who sends a request, as far as limits on attempts go. */
export const clientOf = ({ addressOf }: Auth, request: IncomingMessage, response: ServerResponse): Client => ({
  address: addressOf(request),
  signal: new ClientGone(response),
});

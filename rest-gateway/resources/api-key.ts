import type { IncomingHttpHeaders } from "node:http";
import { severalKeys } from "./refusals.ts";

/** The API key of a request, in whichever place it is sent; an empty one is none. Throws RestError for two that differ. */
export function apiKeyOf(headers: IncomingHttpHeaders, inQuery: string | null): string | undefined {
  const sent = [headers.apikey, headers["x-api-key"], inQuery].filter((key) => key).map(String);
  if (sent.some((key) => key !== sent[0])) throw severalKeys();
  return sent[0];
}

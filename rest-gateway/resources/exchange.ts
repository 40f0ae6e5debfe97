import type { Caller } from "../../db/caller.ts";
import type { Exchange as HttpExchange } from "../../http/exchange.ts";
import type { Header } from "../conventions/endpoint.ts";
import type { ErrorDialect } from "../conventions/problem.ts";
import type { Chosen, Lifecycle } from "../conventions/version.ts";
import { appliedPreferences } from "./answer/applied-preferences.ts";
import type { Address } from "./parse/address.ts";
import type { Preferences } from "./parse/preferences.ts";
import type { ResourceRequest, Style } from "./request.ts";

/** One request on its way; what is learned of it is kept for the answer, and for the answer to its failure. */
export type Exchange = HttpExchange & {
  readonly preferences: Preferences;
  address: Address | null;
  chosen: Chosen | null;
  caller: Caller | null;
  parsed: ResourceRequest | null;
  /** Something was written already: it must not be done again. */
  isWritten: boolean;
};

/** Addresses in answers lead to the same version, however it was chosen. */
export const styleOf = ({ version }: Chosen, { prefix }: Address, { dialects }: Preferences): Style => ({
  version,
  isCamel: version === 2 || dialects.has("case"),
  prefix: prefix === "" && version === 2 ? "/api/v2" : prefix,
});

export function errorDialect({ dialects }: Preferences): ErrorDialect {
  if (dialects.has("detail")) return "detail";
  return dialects.has("flat") ? "flat" : "nested";
}

/** Headers of every answer to the request, whether it fails or not. */
export function headersOf(exchange: Exchange, lifecycle: Lifecycle, isProblem: boolean): Header[] {
  const { chosen, address } = exchange;
  const headers: Header[] = [];
  if (chosen) headers.push(["X-API-Version", String(chosen.version)]);
  const applied = appliedPreferences(exchange, isProblem);
  if (applied !== "") headers.push(["Preference-Applied", applied]);
  if (chosen && address && lifecycle.isDeprecated(chosen.version)) {
    headers.push(...lifecycle.headers(address.path.slice(address.prefix.length)));
  }
  return headers;
}

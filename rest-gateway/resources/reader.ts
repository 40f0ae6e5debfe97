import type { IncomingHttpHeaders } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { Exchange as HttpExchange } from "../../http/exchange.ts";
import { Parameters } from "../conventions/parameters.ts";
import { type Chosen, chooseVersion, type Lifecycle } from "../conventions/version.ts";
import type { CurrentResources } from "./current.ts";
import { parseAddress, parseRoute, type Route } from "./parse/address.ts";
import type { PreferenceParser } from "./parse/headers.ts";
import { type Parsed, type ParseLimits, parseRequest } from "./parse/request.ts";
import type { Address, Preferences, ResourceRequest, Style } from "./request.ts";

export type PrepareOptions = {
  readonly resources: CurrentResources;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  readonly limits: ParseLimits;
};

/** The parts of a request that are parsed, when it is received or when a task repeats it. */
export type RequestText = {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
};

/** The parsed URL and headers of a request, before its resource is looked up. */
export type Target = {
  readonly address: Address;
  readonly parameters: Parameters;
  readonly preferences: Preferences;
  readonly chosen: Chosen;
  readonly style: Style;
};

/** A request and what is known about it so far. The response to an error uses what is known when the error is thrown. */
export type Exchange = HttpExchange & {
  readonly preferences: Preferences;
  target: Target | null;
  caller: Caller | null;
  parsed: ResourceRequest | null;
  /** Whether something has been written: then the request must not be repeated. */
  isWritten: boolean;
};

/** Parses requests, both those that the client waits for and those that a task repeats. */
export class RequestReader {
  readonly #options: PrepareOptions;

  constructor(options: PrepareOptions) {
    this.#options = options;
  }

  /** Throws RestError for a version that is not served. */
  target({ url, headers }: Omit<RequestText, "method">, preferences = this.preferences(headers)): Target {
    const address = parseAddress(url);
    const parameters = new Parameters(address.search);
    const { supported } = this.#options.lifecycle;
    const chosen = chooseVersion(address.version, headers, parameters.get("version"), supported);
    return { address, parameters, preferences, chosen, style: styleOf(chosen, address, preferences) };
  }

  preferences({ prefer }: IncomingHttpHeaders): Preferences {
    return this.#options.preferences.parse(prefer);
  }

  /** Throws RestError for an unknown path. */
  route(segments: readonly string[]): Route {
    return parseRoute(segments, this.#options.resources);
  }

  /** With `isTask`, a GET is for the whole list instead of a page. Throws RestError. */
  request(text: Omit<RequestText, "url">, target: Target, route: Route, body: Buffer | null, isTask: boolean): Parsed {
    const { method, headers } = text;
    const isExport = isTask && method === "GET";
    return parseRequest({ ...target, method, headers, route, body, isExport }, this.#options.limits);
  }
}

/** Links lead to the same version, however it was chosen. */
const styleOf = ({ version }: Chosen, { prefix }: Address, { dialects }: Preferences): Style => ({
  version,
  isCamel: version === 2 || dialects.has("case"),
  prefix: prefix === "" && version === 2 ? "/api/v2" : prefix,
});

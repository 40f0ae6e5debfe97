import { lookup as resolve } from "node:dns";
import type { IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { BlockList, isIP, type LookupFunction } from "node:net";
import type { Config } from "../config/config.ts";
import { tryJson } from "../config/json-file.ts";

const { request: requestHttp } = process.getBuiltinModule("node:http");

/** Bytes of a response. The metadata of a provider has a few thousand. */
const MAX_BYTES = 1_048_576;
/** Milliseconds for a response to arrive completely. */
const TIMEOUT = 5000;

export type OutboundOptions = {
  /** Whether requests to loopback addresses are allowed, over http too. For tests. */
  readonly allowsLoopback: boolean;
  /** Private addresses and networks that may be requested, such as `10.0.0.0/8`. */
  readonly networks: readonly string[];
  readonly timeout?: number;
};

/** A request that was not sent, or whose response is not acceptable. The message is for operators. */
export class OutboundError extends Error {}

export type OutboundSettings = Pick<Config, "authProvidersNetworks">;

export const createOutbound = ({ authProvidersNetworks: networks }: OutboundSettings): Outbound =>
  new Outbound({
    allowsLoopback: networks.includes("loopback"),
    networks: networks.filter((network) => network !== "loopback"),
  });

type RequestOptions = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
};

/**
 * Sends the requests of the service to identity providers. Some of their URLs come from the documents of a provider, so
 * they must not reach the network behind the service: only https, only public addresses, which are checked when the
 * connection is made, and no redirects. Time and size of a response are limited.
 */
export class Outbound {
  readonly #options: OutboundOptions;
  readonly #allowed: BlockList;
  /** In the form of the global `fetch`. Rejects with OutboundError. A redirect is a response like any other. */
  readonly fetch = (url: string | URL, options: RequestOptions = {}): Promise<Response> =>
    this.#send(new URL(url), options);

  constructor(options: OutboundOptions) {
    this.#options = options;
    this.#allowed = blockListOf(options.allowsLoopback ? [...LOOPBACK, ...options.networks] : options.networks);
  }

  /** The body of a response with status 200. Rejects with OutboundError. */
  async text(url: string, accept: string): Promise<string> {
    const response = await this.fetch(url, { headers: { accept } });
    if (response.status === 200) return response.text();
    const hint = response.status >= 300 && response.status < 400 ? ": redirects are not followed" : "";
    throw new OutboundError(`${url} returned status ${response.status}${hint}`);
  }

  /** The object in the body of a response with status 200. Rejects with OutboundError. */
  async json(url: string): Promise<Readonly<Record<string, unknown>>> {
    const text = await this.text(url, "application/json");
    const value = tryJson(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    throw new OutboundError(`${url} did not return a JSON object`);
  }

  #send(url: URL, { method = "GET", headers = {}, body, signal }: RequestOptions): Promise<Response> {
    const { timeout = TIMEOUT } = this.#options;
    const refusal = this.#refusalOf(url);
    if (refusal !== null) return Promise.reject(new OutboundError(`${url.origin} is not requested: ${refusal}`));
    const limit = AbortSignal.timeout(timeout);
    const options = {
      method,
      headers: { "user-agent": "content-service", ...headers },
      lookup: this.#lookup,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      // No connection outlives its request.
      agent: false as const,
    };
    return new Promise<Response>((answer, reject) => {
      const fail = (error: Error) => {
        const reason = limit.aborted ? `no response within ${timeout} ms` : error.message;
        reject(error instanceof OutboundError ? error : new OutboundError(`${url.href}: ${reason}`, { cause: error }));
      };
      const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, options, (response) => {
        readResponse(response, url).then(answer, fail);
      });
      request.on("error", fail);
      request.end(body === undefined || body === null ? undefined : String(body));
    });
  }

  #refusalOf({ protocol, hostname, username, password }: URL): string | null {
    if (username !== "" || password !== "") return "it has a user or a password";
    const address = hostname.replace(/^\[|\]$/g, "");
    // Names are checked when they are resolved.
    if (isIP(address) > 0 && !this.#allows(address)) return `${address} is not a public address`;
    if (protocol === "https:") return null;
    const mayBeHttp = protocol === "http:" && this.#options.allowsLoopback && isLoopback(address);
    return mayBeHttp ? null : "it must be an https URL";
  }

  /** Resolves a name to its public addresses only, so that the checked address is the one that is connected to. */
  readonly #lookup: LookupFunction = (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, []);
      const public_ = addresses.filter(({ address }) => this.#allows(address));
      if (public_.length === 0) {
        return callback(new OutboundError(`${hostname} is not requested: it has no public address`), []);
      }
      if (options.all) callback(null, public_);
      else callback(null, public_[0]!.address, public_[0]!.family);
    });
  };

  #allows(address: string): boolean {
    return isPublic(address) || matches(this.#allowed, address);
  }
}

/** Reads the response to the end. */
async function readResponse(incoming: IncomingMessage, { href }: URL): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  if (incoming.headers["content-encoding"]) {
    incoming.destroy();
    throw new OutboundError(`${href} returned a compressed response, which was not requested`);
  }
  for await (const chunk of incoming) {
    size += (chunk as Buffer).length;
    if (size > MAX_BYTES) {
      incoming.destroy();
      throw new OutboundError(`${href} returned more than ${MAX_BYTES} bytes`);
    }
    chunks.push(chunk as Buffer);
  }
  const headers = Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]);
  const status = incoming.statusCode!;
  const hasBody = status >= 200 && ![204, 205, 304].includes(status);
  return new Response(hasBody ? Buffer.concat(chunks) : null, { status, headers });
}

const LOOPBACK = ["127.0.0.0/8", "::1"];

/** Networks of IANA's special-purpose registries, which are not reachable from everywhere, and multicast. */
const SPECIAL = [
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"],
  ...["192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"],
  ...["224.0.0.0/4", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"],
];

const special = blockListOf(SPECIAL);
/** Global unicast. Everything else, such as fc00::/7, fe80::/10 and the translated 64:ff9b::/96, is not public. */
const globalUnicast = blockListOf(["2000::/3"]);

/** Whether an address is reachable from everywhere; not loopback, private, link-local, multicast or reserved. */
function isPublic(address: string): boolean {
  const plain = unmapped(address);
  return !matches(special, plain) && (isIP(plain) === 4 || matches(globalUnicast, plain));
}

const isLoopback = (address: string) => address === "localhost" || /^127(\.\d+){3}$|^::1$/.test(address);

function blockListOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

const matches = (list: BlockList, address: string) => {
  const plain = unmapped(address);
  return list.check(plain, isIP(plain) === 6 ? "ipv6" : "ipv4");
};

/** `::ffff:127.0.0.1` and `::ffff:7f00:1` → `127.0.0.1` */
function unmapped(address: string): string {
  const [, dotted, high, low] = /^::ffff:(?:(\d+(?:\.\d+){3})|([0-9a-f]+):([0-9a-f]+))$/i.exec(address) ?? [];
  if (dotted !== undefined) return dotted;
  if (high === undefined) return address;
  const [first, second] = [Number.parseInt(high, 16), Number.parseInt(low!, 16)];
  return [first >> 8, first & 255, second >> 8, second & 255].join(".");
}

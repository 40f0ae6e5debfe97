import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import { isServiceKey } from "../../identity/tokens.ts";
import { isRefusal, type Problem, problem } from "../../problems/problem.ts";
import type { Exchange } from "../pipeline/exchange.ts";

/** Who may read what is for operators. */
export type OperatorAccess = {
  /** "admin port": requests for a name that no other site can have. "local": requests from this machine too, on the embedded database. */
  readonly openTo: "admin port" | "local" | "operators";
  /** A name of the admin port. */
  readonly adminHost: string;
  isOperator(caller: Caller): boolean;
};

type OperatorSettings = Pick<Config, "adminPort" | "adminHost" | "embedded" | "hasAuth" | "consoleRoles">;

/**
 * Where users sign in at the service, operators have the service key or are administrators. In any other, the issuer of the
 * tokens decides what a role means, so no role is one of operators unless CONSOLE_ROLES names it.
 */
export const operatorAccess = ({
  adminPort,
  adminHost,
  embedded,
  hasAuth,
  consoleRoles,
}: OperatorSettings): OperatorAccess => ({
  openTo: adminPort !== 0 ? "admin port" : embedded ? "local" : "operators",
  adminHost,
  isOperator: (caller) =>
    hasAuth
      ? caller.role === "service_role" || caller.role === "admin"
      : isServiceKey(caller) || consoleRoles.includes(caller.role),
});

const OTHER_NAME =
  "send the service key, or a Host header that is an IP address, localhost, a name without a dot, or ADMIN_HOST";

/** Why a request is refused at a URL for operators; null if it is allowed. */
export async function refusalForOperators(
  exchange: Exchange,
  { openTo, adminHost, isOperator }: OperatorAccess,
): Promise<Problem | null> {
  const { request, identity } = exchange;
  if (isOfOtherSite(request)) return problem("other site");
  if (openTo === "admin port" && isNameOfNoSite(nameOf(request), adminHost)) return null;
  if (openTo === "local" && isLocal(request)) return null;
  const refusal =
    openTo === "admin port" ? problem("operators only", { message: OTHER_NAME }) : problem("operators only");
  try {
    return isOperator(await identity.caller()) ? null : refusal;
  } catch (error) {
    if (isRefusal(error)) return refusal;
    throw error;
  }
}

/** Whether a page of another site sends the request, unless the user follows a link. Pages cannot set these headers: browsers do. */
export const isOfOtherSite = ({ method, headers }: IncomingMessage): boolean => {
  const { "sec-fetch-site": site, "sec-fetch-mode": mode, origin, host } = headers;
  if (site === undefined) return origin !== undefined && origin.replace(/^https?:\/\//, "") !== host;
  return site !== "same-origin" && site !== "none" && !(mode === "navigate" && method === "GET");
};

/**
 * Whether no page of a site can have this name: it could send requests to the service under a name of its own that resolves to the
 * machine of the service. Names without a dot are those of machines and containers.
 */
const isNameOfNoSite = (name: string, adminHost: string): boolean =>
  isIP(name) > 0 || !name.includes(".") || name === adminHost;

/** Whether a program or browser on this machine sends the request to a local name. */
function isLocal(request: IncomingMessage): boolean {
  const { socket, headers } = request;
  const isForwarded = headers["x-forwarded-for"] !== undefined || headers.forwarded !== undefined;
  return !isForwarded && isLoopback(socket.remoteAddress ?? "") && isLocalName(nameOf(request));
}

const isLoopback = (address: string) => /^(::ffff:)?127\.|^::1$/.test(address);

const isLocalName = (name: string) => name === "localhost" || (isIP(name) > 0 && isLoopback(name));

/** The host name or address in the header Host. */
const nameOf = ({ headers: { host = "" } }: IncomingMessage): string =>
  host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Config } from "../../config/config.ts";
import type { Caller } from "../../db/caller.ts";
import { isRefusal, type Problem, problem } from "../../db/problems/problem.ts";
import { isServiceKey } from "../../identity/tokens.ts";
import type { Exchange } from "../pipeline/exchange.ts";

/** Who may read what is for operators. */
export type OperatorAccess = {
  /** "everyone": on ADMIN_PORT. "local": requests from this machine too, on the embedded database. */
  readonly openTo: "everyone" | "local" | "operators";
  isOperator(caller: Caller): boolean;
};

type OperatorSettings = Pick<Config, "adminPort" | "embedded" | "hasAuth" | "consoleRoles">;

/**
 * Where users sign in at the service, operators have the service key or are administrators. In any other, the issuer of the
 * tokens decides what a role means, so no role is one of operators unless CONSOLE_ROLES names it.
 */
export const operatorAccess = ({ adminPort, embedded, hasAuth, consoleRoles }: OperatorSettings): OperatorAccess => ({
  openTo: adminPort !== 0 ? "everyone" : embedded ? "local" : "operators",
  isOperator: (caller) =>
    hasAuth
      ? caller.role === "service_role" || caller.role === "admin"
      : isServiceKey(caller) || consoleRoles.includes(caller.role),
});

/** Why a request is refused at a URL for operators; null if it is allowed. */
export async function refusalForOperators(
  exchange: Exchange,
  { openTo, isOperator }: OperatorAccess,
): Promise<Problem | null> {
  const { request, identity } = exchange;
  if (openTo === "everyone") return null;
  if (isOfOtherSite(request)) return problem("other site");
  if (openTo === "local" && isLocal(request)) return null;
  try {
    return isOperator(await identity.caller()) ? null : problem("operators only");
  } catch (error) {
    if (isRefusal(error)) return problem("operators only");
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
 * Whether a program or browser on this machine sends the request to a local name. Otherwise a page could reach the service under a
 * name of its own that resolves to this machine.
 */
function isLocal({ socket, headers }: IncomingMessage): boolean {
  const isForwarded = headers["x-forwarded-for"] !== undefined || headers.forwarded !== undefined;
  return !isForwarded && isLoopback(socket.remoteAddress ?? "") && isLocalName(headers.host ?? "");
}

const isLoopback = (address: string) => /^(::ffff:)?127\.|^::1$/.test(address);

function isLocalName(host: string): boolean {
  const name = host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1");
  return name === "localhost" || (isIP(name) > 0 && isLoopback(name));
}

import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Caller } from "../db/caller.ts";
import type { Problem } from "../db/errors.ts";
import { RefusedError } from "../identity/refusals.ts";
import type { Exchange } from "./exchange.ts";

/** The roles of operators: the service key, and administrators. */
const ROLES: ReadonlySet<string> = new Set(["service_role", "admin"]);

export const isOperator = ({ role }: Caller): boolean => ROLES.has(role);

/**
 * Who may read what is for operators. "open" (on ADMIN_PORT): everyone. "local" (embedded database): requests from this machine, and
 * operators. "operators": only callers with the service key or the role admin.
 */
export type OperatorAccess = "open" | "local" | "operators";

/** Why a request is refused at a URL for operators; null if it is allowed. */
export async function refusalForOperators(exchange: Exchange, access: OperatorAccess): Promise<Problem | null> {
  const { request, identity } = exchange;
  if (access === "open") return null;
  if (isOfOtherSite(request)) return OTHER_SITE;
  if (access === "local" && isLocal(request)) return null;
  try {
    return isOperator(await identity.caller()) ? null : SIGN_IN;
  } catch (error) {
    if (error instanceof RefusedError) return SIGN_IN;
    throw error;
  }
}

const OTHER_SITE: Problem = {
  status: 403,
  code: "PERMISSION_DENIED",
  message: "pages of other sites may not request this",
};

const SIGN_IN: Problem = {
  status: 401,
  code: "AUTH_REQUIRED",
  message: "this is for operators: send the service key, or sign in as an administrator",
};

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

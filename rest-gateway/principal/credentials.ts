import type { IncomingHttpHeaders } from "node:http";
import { bearerToken } from "./bearer.ts";

/** Everything that a request may be signed in with; "" counts as absent. */
export type Credentials = {
  /** `Authorization: Bearer …` */
  readonly bearer: string | null;
  readonly basic: BasicCredentials | null;
  /** The cookie SESSION. */
  readonly session: string | null;
  /** `X-API-Key`, or the parameter `api_key`. */
  readonly apiKey: string | null;
  /** The header of the table interface. */
  readonly apikey: string | null;
  /** An Authorization that is neither Bearer nor Basic, or can't be read. */
  readonly isUnreadable: boolean;
};

export type BasicCredentials = { readonly username: string; readonly password: string };

/** Throws nothing: what can't be read is told as such. */
export function readCredentials(headers: IncomingHttpHeaders, parameter: string | null = null): Credentials {
  const { authorization } = headers;
  const bearer = authorization ? bearerToken(authorization) : null;
  const basic = authorization && bearer === null ? readBasic(authorization) : null;
  return {
    bearer,
    basic,
    session: headers.cookie ? sessionIn(headers.cookie) : null,
    apiKey: textOf(headers["x-api-key"]) ?? (parameter || null),
    apikey: textOf(headers.apikey),
    isUnreadable: Boolean(authorization) && bearer === null && basic === null,
  };
}

const textOf = (header: string | string[] | undefined): string | null => (header ? String(header) : null);

const SESSION = /(?:^|;)\s*SESSION=([^;]*)/;

/** Of two the first counts, as for functions of the database. */
const sessionIn = (cookies: string): string | null => SESSION.exec(cookies)?.[1]?.trim() || null;

/** The name ends at the first colon. Source: RFC 7617. */
function readBasic(authorization: string): BasicCredentials | null {
  const [, encoded] = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization) ?? [];
  if (encoded === undefined) return null;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon < 0 ? null : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

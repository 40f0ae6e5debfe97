import type { IncomingHttpHeaders } from "node:http";
import { parseAccept } from "./media.ts";
import { disagreeingVersions, unsupportedVersion } from "./problems.ts";

export type Version = 1 | 2;

/** What a client gets that names none. Source: the contract, Versioning, rule 1. */
const DEFAULT_VERSION = "1";
const MEDIA_TYPE = /^application\/vnd\.content\.v([^+]*)\+json$/;

export type Chosen = { readonly version: Version /** The media type of the answer. */; readonly contentType: string };

/**
 * The version that the path, the headers, the media type or the query name. Throws RestError when two of them disagree,
 * and when it is none of those that are supported.
 */
export function chooseVersion(
  inPath: string | null,
  headers: IncomingHttpHeaders,
  inQuery: string | null,
  supported: readonly Version[],
): Chosen {
  const inAccept = mediaVersion(headers.accept, supported);
  const named = [inPath, headers["x-api-version"], headers["accept-version"], inAccept, inQuery]
    .filter((version) => version !== null && version !== undefined)
    .map((version) => String(version).trim());
  const [first = DEFAULT_VERSION, ...others] = new Set(named);
  if (others.length > 0) throw disagreeingVersions([first, ...others], supported);
  const version = supported.find((each) => String(each) === first);
  if (version === undefined) throw unsupportedVersion(first, supported);
  const type = inAccept === null ? "application/json" : `application/vnd.content.v${version}+json`;
  return { version, contentType: `${type}; charset=utf-8` };
}

/** That of the most wanted media type which has one, a supported one if there is a choice. */
function mediaVersion(accept: string | undefined, supported: readonly Version[]): string | null {
  if (accept === undefined || !/vnd\.content/i.test(accept)) return null;
  const named = parseAccept(accept).flatMap(({ type }) => MEDIA_TYPE.exec(type)?.[1] ?? []);
  return named.find((version) => supported.some((each) => String(each) === version)) ?? named[0] ?? null;
}

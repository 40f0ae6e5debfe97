import type { IncomingHttpHeaders } from "node:http";
import { parseAccept } from "../../parse/media.ts";
import { disagreeingVersions, unsupportedVersion } from "../problem.ts";
import type { Style } from "../request.ts";

export type Version = Style["version"];

/** What a client gets that names none. Source: the contract, Versioning, rule 1. */
const DEFAULT_VERSION = "1";
const MEDIA_TYPE = /^application\/vnd\.content\.v([0-9]+)\+json$/;

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
  const inAccept = mediaVersion(headers.accept);
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

/** That of the most wanted media type which has one. */
function mediaVersion(accept: string | undefined): string | null {
  if (!accept?.includes("vnd.content")) return null;
  for (const { type } of parseAccept(accept)) {
    const version = MEDIA_TYPE.exec(type)?.[1];
    if (version !== undefined) return version;
  }
  return null;
}

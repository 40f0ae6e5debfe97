import type { IncomingHttpHeaders } from "node:http";
import type { Config } from "../../config/config.ts";
import { type Header, parseAccept } from "./headers.ts";
import { disagreeingVersions, unsupportedVersion } from "./problem.ts";

export type Version = 1 | 2;

/** The version of requests that do not name a version. Source: the contract, Versioning, rule 1. */
const DEFAULT_VERSION = "1";
/**
 * Of every vendor, as clients cannot know the name. Source: the contract, Versioning, "Accept: application/vnd.<vendor>.v<N>+json".
 * Without a limit on both parts, the time to match would grow with the square of the length.
 */
const MEDIA_TYPE = /^application\/vnd\.([\w.-]{1,100})\.v(-?\d[^+]{0,100})\+json$/;

type Chosen = {
  readonly version: Version;
  /** The media type of the response. */
  readonly contentType: string;
};

/**
 * The version in the path, a header, the media type or the query. Throws Problem if they name different versions, or an
 * unsupported version.
 */
export function chooseVersion(
  inPath: string | null,
  headers: IncomingHttpHeaders,
  inQuery: string | null,
  supported: readonly Version[],
): Chosen {
  const inAccept = mediaType(headers.accept, supported);
  const named = [inPath, headers["x-api-version"], headers["accept-version"], inAccept?.version, inQuery]
    .filter((version) => version !== null && version !== undefined)
    .map((version) => String(version).trim());
  const [first = DEFAULT_VERSION, ...others] = new Set(named);
  if (others.length > 0) throw disagreeingVersions([first, ...others], supported);
  const version = supported.find((each) => String(each) === first);
  if (version === undefined) throw unsupportedVersion(first, supported);
  const type = inAccept === null ? "application/json" : `application/vnd.${inAccept.vendor}.v${version}+json`;
  return { version, contentType: `${type}; charset=utf-8` };
}

type Versioned = { readonly vendor: string; readonly version: string };

/** The most preferred media type with a version. Supported versions take precedence over others. */
function mediaType(accept: string | undefined, supported: readonly Version[]): Versioned | null {
  if (accept === undefined || !/vnd\./i.test(accept)) return null;
  const named = parseAccept(accept).flatMap<Versioned>(({ type }) => {
    const [, vendor, version] = MEDIA_TYPE.exec(type) ?? [];
    return vendor === undefined || version === undefined ? [] : [{ vendor, version }];
  });
  return named.find(({ version }) => supported.some((each) => String(each) === version)) ?? named[0] ?? null;
}

export type LifecycleOptions = Config["apiV1Status"];

/** The prefix of links in responses to requests without a version. Links must lead to a supported version. */
export const prefixOf = (status: LifecycleOptions["status"]): string => (status === "retired" ? "/api/v2" : "");

/** The lifecycle of version 1. Version 2 is the current version. */
export class Lifecycle {
  readonly supported: readonly Version[];
  readonly #options: LifecycleOptions;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    this.supported = options.status === "retired" ? [2] : [1, 2];
  }

  get prefix(): string {
    return prefixOf(this.#options.status);
  }

  isDeprecated(version: Version): boolean {
    return version === 1 && this.#options.status === "deprecated";
  }

  /** `path` is that of the request, without a version. */
  headers(path: string): readonly Header[] {
    const { sunset } = this.#options;
    return [
      ["X-API-Warn", this.#message],
      ...(sunset ? ([["X-API-Sunset", sunset.toUTCString()]] as const) : []),
      // The path may contain characters that would end the link.
      ["Link", `</api/v2${path.replace(/[<>"]/g, encodeURIComponent)}>; rel=successor-version`],
    ];
  }

  /** The member `deprecation` of bodies. */
  get block(): object {
    const { sunset, guide } = this.#options;
    return {
      deprecated: true,
      message: this.#message,
      ...(sunset && { sunset: sunset.toISOString() }),
      ...(guide !== "" && { migrationGuide: guide }),
    };
  }

  get #message(): string {
    const { sunset } = this.#options;
    const end = sunset ? `, and ends on ${sunset.toISOString().slice(0, 10)}` : "";
    return `version 1 is deprecated${end}: use version 2`;
  }
}

import type { Header } from "./answer.ts";
import type { Version } from "./version.ts";

export type LifecycleOptions = {
  readonly status: "supported" | "deprecated" | "retired";
  /** When it is switched off; null when that is not settled. */
  readonly sunset: Date | null;
  /** Where a migration is explained; "" when nowhere. */
  readonly guide: string;
};

/** What an address begins with whose reader has named no version, so that it leads to one that is served. */
export const prefixOf = (status: LifecycleOptions["status"]): string => (status === "retired" ? "/api/v2" : "");

/** How far version 1 has come on its way out. Version 2 is the current one. */
export class Lifecycle {
  readonly supported: readonly Version[];
  readonly #options: LifecycleOptions;

  constructor(options: LifecycleOptions) {
    this.#options = options;
    this.supported = options.status === "retired" ? [2] : [1, 2];
  }

  /** What addresses begin with where no version is named. */
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
      // An address may be sent with characters in it that would end the link.
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

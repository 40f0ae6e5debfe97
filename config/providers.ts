import { z } from "zod";
import { ConfigError, describeFault } from "./config-error.ts";
import { jsonFile } from "./json-file.ts";
import { entryType, type ProviderKind, type ProviderSettings, type Sources } from "./provider-entry.ts";
import { parseValue } from "./setting-types.ts";

type ReaderOptions = {
  /** Of the file; "" without one. */
  readonly path: string;
  readonly environment: Sources["environment"];
  readonly allowsLoopback: boolean;
  /** The kinds of parts. */
  readonly kinds?: readonly ProviderKind[];
};

/** Reads the settings of identity providers: those of the file AUTH_PROVIDERS, and those of the table. */
export class ProviderReader {
  readonly #options: ReaderOptions;
  readonly #kinds: readonly ProviderKind[];

  constructor(options: ReaderOptions) {
    this.#options = options;
    this.#kinds = options.kinds ?? [];
  }

  /** Reads entries of these kinds. */
  with(kinds: readonly ProviderKind[]): ProviderReader {
    return new ProviderReader({ ...this.#options, kinds });
  }

  /** Reads the file again each time. Throws ConfigError. */
  readFile(): readonly ProviderSettings[] {
    const { path } = this.#options;
    if (path === "") return [];
    const entries = z
      .array(this.#entry(false), { error: "must be a list of providers" })
      .refine(hasUniqueNames, { error: "names a provider twice" })
      .refine(hasUniqueDomains, { error: "has a domain twice" });
    return parseValue("AUTH_PROVIDERS", jsonFile(entries), path);
  }

  /** Reads a row of the table `auth_private.providers`. Throws ConfigError. */
  readRow(name: string, definition: Readonly<Record<string, unknown>>): ProviderSettings {
    const { data, error } = this.#entry(true).safeParse({ ...definition, name });
    if (error) throw new ConfigError(`the provider ${name} of the table: ${describeFault(error)}`);
    return data;
  }

  #entry(isTable: boolean): z.ZodType<ProviderSettings> {
    const { environment, allowsLoopback } = this.#options;
    return entryType({ environment, isTable, allowsLoopback }, this.#kinds);
  }
}

const hasUniqueNames = (providers: readonly ProviderSettings[]) =>
  new Set(providers.map(({ name }) => name)).size === providers.length;

function hasUniqueDomains(providers: readonly ProviderSettings[]): boolean {
  const domains = providers.flatMap((provider) => provider.domains ?? []);
  return new Set(domains).size === domains.length;
}

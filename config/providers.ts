import { z } from "zod";
import { ConfigError } from "./config-error.ts";
import { describeIssue, isLoopbackUrl, jsonFile } from "./json-file.ts";
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

  /** Checks the file before it is known which parts are open: of an entry that a part reads, only the name. Throws ConfigError. */
  check(): void {
    this.#read("ignored");
  }

  /** Reads the file again each time. Throws ConfigError. */
  readFile(): readonly ProviderSettings[] {
    return this.#read("refused");
  }

  /** Reads a row of the table `auth_private.providers`. Throws ConfigError. */
  readRow(name: string, definition: Readonly<Record<string, unknown>>): ProviderSettings {
    const { environment } = this.#options;
    const type = entryType({ environment, isTable: true }, this.#kinds);
    const { data, error } = type.safeParse({ ...definition, name });
    if (error) throw new ConfigError(`the provider ${name} of the table: ${describeIssue(error.issues[0]!)}`);
    this.#refuseLoopback(data);
    return data;
  }

  #read(others: "refused" | "ignored"): readonly ProviderSettings[] {
    const { path, environment } = this.#options;
    if (path === "") return [];
    const entries = z
      .array(entryType({ environment, isTable: false }, this.#kinds, others), { error: "must be a list of providers" })
      .refine(hasUniqueNames, { error: "names a provider twice" })
      .refine(hasUniqueDomains, { error: "has a domain twice" });
    const providers = parseValue("AUTH_PROVIDERS", jsonFile(entries), path);
    for (const provider of providers) this.#refuseLoopback(provider);
    return providers;
  }

  #refuseLoopback(provider: ProviderSettings): void {
    const urls = this.#kinds.find(({ kind }) => kind === provider.kind)?.urls(provider) ?? [];
    if (this.#options.allowsLoopback || !urls.some(isLoopbackUrl)) return;
    throw new ConfigError(
      `the provider ${provider.name} is on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback`,
    );
  }
}

const hasUniqueNames = (providers: readonly ProviderSettings[]) =>
  new Set(providers.map(({ name }) => name)).size === providers.length;

function hasUniqueDomains(providers: readonly ProviderSettings[]): boolean {
  const domains = providers.flatMap((provider) => provider.domains ?? []);
  return new Set(domains).size === domains.length;
}

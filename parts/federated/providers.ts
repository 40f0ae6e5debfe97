import type { Logger } from "pino";
import { ConfigError } from "../../config/config-error.ts";
import type { Kind, ProviderSettings } from "../../config/provider-entry.ts";
import type { ProviderReader } from "../../config/providers.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { signInFailure } from "./failure.ts";
import type { Protocol } from "./protocol.ts";
import type { Provider, ProviderContext } from "./provider.ts";

export type ProvidersOptions = Database & {
  readonly reader: ProviderReader;
  readonly protocols: readonly Protocol[];
  readonly context: ProviderContext;
  readonly log: Logger;
};

/** The identity providers: those of the file AUTH_PROVIDERS, and those of the table. */
export class Providers {
  readonly #options: ProvidersOptions;
  #providers: ReadonlyMap<string, Provider> = new Map();
  #ofFile: readonly ProviderSettings[] = [];
  #loading: Promise<void> = Promise.resolve();

  constructor(options: ProvidersOptions) {
    this.#options = options;
  }

  /**
   * Reads the file and the table again. An entry that is not valid is logged: if it is in the file, the previous contents of
   * the file stay. Providers that have not changed keep their metadata and keys. Rejects if the database does not respond.
   */
  load(): Promise<void> {
    const loading = this.#loading.catch(() => {}).then(() => this.#load());
    this.#loading = loading;
    return loading;
  }

  byName(name: string): Provider | undefined {
    return this.#providers.get(name);
  }

  /** Throws Problem, also for one of another kind. */
  find(name: string, kind?: Kind): Provider {
    const provider = this.byName(name);
    if (provider === undefined || (kind ?? provider.settings.kind) !== provider.settings.kind)
      throw signInFailure("unknown provider");
    return provider;
  }

  list(): readonly Provider[] {
    return [...this.#providers.values()];
  }

  /** The issuers with whose identities users can sign in; those that do not respond are left out. */
  async issuers(): Promise<readonly string[]> {
    const found = await Promise.all(this.list().map(knownIssuerOf));
    return found.filter((issuer) => issuer !== null);
  }

  /**
   * The issuer of a provider's identities. A provider may choose its own name in its metadata: if it chose the name of another
   * provider, it could sign in that provider's users. Rejects with Problem.
   */
  async issuerOf(provider: Provider): Promise<string> {
    const issuer = await provider.issuer();
    if (provider.settings.issuer !== null) return issuer;
    const others = this.list().filter((other) => !haveOneSource(other, provider));
    const issuers = await Promise.all(others.map(knownIssuerOf));
    const same = others[issuers.indexOf(issuer)];
    if (same === undefined) return issuer;
    const detail = `the metadata have the entityID ${issuer}, which is also the issuer of the provider ${same.settings.name}`;
    throw signInFailure("unavailable", `${detail}: set issuer in the entry of each`);
  }

  async #load(): Promise<void> {
    const ofFile = this.#readFile();
    const ofTable = await this.#readTable(new Set(ofFile.map(({ name }) => name)));
    const providers = [...ofFile, ...ofTable].map((each) => this.#unchanged(each) ?? this.#create(each));
    this.#reportDomains([...ofFile, ...ofTable]);
    this.#ofFile = ofFile;
    this.#providers = new Map((await Promise.all(providers)).map((provider) => [provider.settings.name, provider]));
  }

  #readFile(): readonly ProviderSettings[] {
    try {
      return this.#options.reader.readFile();
    } catch (error) {
      this.#report(error, "the providers of AUTH_PROVIDERS stay as they were");
      return this.#ofFile;
    }
  }

  async #readTable(taken: ReadonlySet<string>): Promise<readonly ProviderSettings[]> {
    const { reader, functions, log } = this.#options;
    type Row = { readonly name: string; readonly definition: Readonly<Record<string, unknown>> };
    const rows = await functions.call<readonly Row[]>("list_providers()", []);
    return rows.flatMap(({ name, definition }) => {
      if (taken.has(name)) {
        log.error({ provider: name }, "a provider of the table is not used: AUTH_PROVIDERS has one of this name");
        return [];
      }
      try {
        return [reader.readRow(name, definition)];
      } catch (error) {
        this.#report(error, "a provider of the table is not used");
        return [];
      }
    });
  }

  /** A row may have a domain of the file, or of another row: the first provider is found by it. */
  #reportDomains(all: readonly ProviderSettings[]): void {
    const owners = new Map<string, string>();
    for (const { name, domain } of all.flatMap(domainsOf)) {
      const owner = owners.get(domain);
      if (owner === undefined) owners.set(domain, name);
      else this.#options.log.error(`the domain ${domain} of the provider ${name} finds ${owner}, which has it too`);
    }
  }

  #report(error: unknown, consequence: string): void {
    if (!(error instanceof ConfigError)) throw error;
    this.#options.log.error(`${error.message}: ${consequence}`);
  }

  #unchanged(settings: ProviderSettings): Provider | undefined {
    const provider = this.#providers.get(settings.name);
    return provider && JSON.stringify(provider.settings) === JSON.stringify(settings) ? provider : undefined;
  }

  #create(settings: ProviderSettings): Promise<Provider> {
    const { context, protocols } = this.#options;
    return protocols.find(({ kind }) => kind === settings.kind)!.create(settings, context);
  }
}

const domainsOf = ({ name, domains = [] }: ProviderSettings) => domains.map((domain) => ({ name, domain }));

/** The issuer of a provider; null if its metadata, which name the issuer, cannot be read. */
const knownIssuerOf = async (provider: Provider): Promise<string | null> =>
  provider.settings.issuer ?? provider.issuer().catch(() => null);

/** Whether two entries are for one provider, with different attributes, for example. */
const haveOneSource = (one: Provider, two: Provider): boolean => one.source !== undefined && one.source === two.source;

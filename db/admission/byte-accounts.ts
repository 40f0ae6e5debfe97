import { siteOf } from "../network.ts";

/** What one holder holds. */
export type Held = { readonly kind: string; readonly bytes: number; end(): void };

/**
 * What the clients of one network make the service hold, or the networks of one site. `ending` are the holdings that can be ended,
 * `large` those of many bytes.
 */
export type Account = {
  readonly name: string;
  /** Of a network, the account of its site, if it has one. */
  readonly site: Account | null;
  bytes: number;
  /** Open holdings; of a site, its networks with open holdings. */
  open: number;
  /** Null for a site. */
  ending: Set<Held> | null;
  large: Set<Held> | null;
};

/** The accounts of networks with open holdings, and of their sites. */
export class Accounts {
  readonly networks = new Map<string, Account>();
  readonly #sites = new Map<string, Account>();

  /** That of a network or a site. */
  get(name: string): Account | undefined {
    return this.networks.get(name) ?? this.#sites.get(name);
  }

  /** The account of a network, with one more open holding. */
  open(network: string): Account {
    const known = this.networks.get(network);
    if (known) {
      known.open++;
      return known;
    }
    const siteName = siteOf(network);
    const account = newAccount(network, siteName === null ? null : this.#openSite(siteName));
    this.networks.set(network, account);
    return account;
  }

  #openSite(name: string): Account {
    const known = this.#sites.get(name);
    if (known) known.open++;
    const site = known ?? newAccount(name, null);
    this.#sites.set(name, site);
    return site;
  }

  /** The account has one open holding less. */
  close(account: Account): void {
    const { name, site } = account;
    if (--account.open > 0) return;
    this.networks.delete(name);
    if (site !== null && --site.open === 0) this.#sites.delete(site.name);
  }
}

const newAccount = (name: string, site: Account | null): Account => ({
  ...{ name, site, bytes: 0, open: 1 },
  ...{ ending: null, large: null },
});

import type { Catalog } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Description } from "./description.ts";
import { outOfOrder, type Resource, type Resources, resourcesOf, type Served, tableName } from "./resource.ts";

export type CurrentOptions = {
  readonly descriptions: readonly Description[];
  readonly catalog: Pick<LiveCatalog, "current" | "onChange">;
  /** Called once for each reason why a description does not match its table. The resource is not served. */
  onInvalidDescription(reason: string): void;
};

/** The resources for the current tables: when the catalog changes, the descriptions are compared with the new tables. */
export class CurrentResources {
  readonly #onInvalidDescription: CurrentOptions["onInvalidDescription"];
  readonly #descriptions: readonly Description[];
  readonly #reported = new Set<string>();
  /** The names of resources whose tables should exist. */
  readonly #expected: Set<string>;
  #served: Served;

  /** Every invalid description is reported at once, and the others are served. */
  constructor({ descriptions, catalog, onInvalidDescription }: CurrentOptions) {
    this.#onInvalidDescription = onInvalidDescription;
    // Only schemas that are served count: elsewhere the table may well exist.
    const { schemas } = catalog.current;
    const ours = descriptions.filter(({ table }) => schemas.has(tableName(table).schema));
    this.#expected = new Set(ours.map(({ name }) => name));
    this.#descriptions = descriptions;
    this.#served = this.#compare(catalog.current);
    catalog.onChange((changed) => {
      this.#served = this.#compare(changed);
    });
  }

  get byName(): Resources {
    return this.#served.resources;
  }

  /** The resource whose records may have accounts. Throws Problem as `get` does. */
  get accounts(): Resource | undefined {
    const described = this.#descriptions.find(({ hasAccount }) => hasAccount);
    return described && this.get(described.name);
  }

  /** Throws Problem for a resource whose table is gone, or has changed so that its description is invalid. */
  get(name: string): Resource | undefined {
    const { resources, invalid } = this.#served;
    if (invalid.has(name)) throw outOfOrder(name);
    return resources.get(name);
  }

  #compare(catalog: Catalog): Served {
    const served = resourcesOf(this.#descriptions, catalog, this.#expected);
    for (const name of served.resources.keys()) this.#expected.add(name);
    this.#report(served.invalid.values());
    return served;
  }

  #report(reasons: Iterable<string>): void {
    for (const reason of reasons) {
      if (this.#reported.has(reason)) continue;
      this.#reported.add(reason);
      this.#onInvalidDescription(reason);
    }
  }
}

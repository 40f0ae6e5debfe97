import type { Catalog } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Description } from "./description.ts";
import { type Resources, resourcesOf } from "./resource.ts";

/** The resources as the tables are now: descriptions are looked up anew when the catalog has changed. */
export class CurrentResources {
  readonly #descriptions: readonly Description[];
  readonly #catalog: Pick<LiveCatalog, "current">;
  #known: { readonly catalog: Catalog; readonly resources: Resources } | null = null;

  constructor(descriptions: readonly Description[], catalog: Pick<LiveCatalog, "current">) {
    this.#descriptions = descriptions;
    this.#catalog = catalog;
  }

  /** Of all that is described, whether its table is there or not. */
  get names(): readonly string[] {
    return this.#descriptions.map(({ name }) => name);
  }

  get byName(): Resources {
    const { current: catalog } = this.#catalog;
    if (this.#known?.catalog !== catalog) {
      this.#known = { catalog, resources: resourcesOf(this.#descriptions, catalog) };
    }
    return this.#known.resources;
  }
}

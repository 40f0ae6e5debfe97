import { type Catalog, tableOf } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Description } from "./description.ts";
import { outOfOrder } from "./problem.ts";
import { type Resource, type Resources, resourcesOf, type Served, tableName } from "./resource.ts";

export type CurrentOptions = {
  readonly descriptions: readonly Description[];
  readonly catalog: Pick<LiveCatalog, "current">;
  /** Whether the tables are made by our migrations; else they may be somebody else's, and just have the same names. */
  readonly isMigrated: boolean;
  /** A description does not fit its table: the resource is not served. Told once for each reason. */
  onMisfit(reason: string): void;
};

/** The resources as the tables are now: descriptions are looked up anew when the catalog has changed. */
export class CurrentResources {
  readonly #options: CurrentOptions;
  readonly #descriptions: readonly Description[];
  readonly #told = new Set<string>();
  #known: { readonly catalog: Catalog; readonly served: Served } | null = null;

  /** Where the tables are ours each slip in a description is told at once, and the others are served. */
  constructor(options: CurrentOptions) {
    const { descriptions, catalog, isMigrated } = options;
    this.#options = options;
    const { misfits } = resourcesOf(descriptions, catalog.current);
    const absences = isMigrated ? absencesOf(descriptions, catalog.current) : [];
    this.#tell([...absences, ...misfits.values()]);
    this.#descriptions = isMigrated ? descriptions : descriptions.filter(({ name }) => !misfits.has(name));
  }

  /** Of all that is described, whether its table is there or not. */
  get names(): readonly string[] {
    return this.#descriptions.map(({ name }) => name);
  }

  get byName(): Resources {
    return this.#served.resources;
  }

  /** Throws RestError for a resource whose table has changed, so that its description does not fit any more. */
  get(name: string): Resource | undefined {
    const { resources, misfits } = this.#served;
    if (misfits.has(name)) throw outOfOrder(name);
    return resources.get(name);
  }

  get #served(): Served {
    const { current: catalog } = this.#options.catalog;
    if (this.#known?.catalog !== catalog) {
      this.#known = { catalog, served: resourcesOf(this.#descriptions, catalog) };
      this.#tell([...this.#known.served.misfits.values()]);
    }
    return this.#known.served;
  }

  #tell(reasons: readonly string[]): void {
    const fresh = reasons.filter((reason) => !this.#told.has(reason));
    for (const reason of fresh) {
      this.#told.add(reason);
      this.#options.onMisfit(reason);
    }
  }
}

/** A schema that is not served is none of a description's faults. */
const absencesOf = (descriptions: readonly Description[], catalog: Catalog): readonly string[] =>
  descriptions
    .filter(({ table }) => catalog.schemas.has(tableName(table).schema) && !tableOf(catalog, tableName(table)))
    .map(({ name, table }) => `the description of ${name} has the table ${table}, which there is not`);

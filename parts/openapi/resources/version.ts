import { camelCase } from "../../../config/setting-types.ts";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { Version } from "../../../rest-gateway/conventions/version.ts";
import type { ResourceDescriptionOptions } from "../../../rest-gateway/descriptions.ts";
import type { Description } from "../../../rest-gateway/resources/description.ts";
import type { Collection, Relation, Resource, Resources } from "../../../rest-gateway/resources/resource.ts";
import { signUpSchemas } from "../auth-paths.ts";
import { namedSchemas } from "../body-schemas.ts";
import { PAGE_SCHEMAS } from "../conventions/parameters.ts";
import { TASK_SCHEMAS } from "../conventions/tasks.ts";
import { componentKeys } from "../schema-parts.ts";

/** The resources in one version, which one OpenAPI document describes. */
export type ApiVersion = Omit<ResourceDescriptionOptions, "catalog" | "resources" | "lifecycle"> & {
  readonly catalog: Catalog;
  readonly resources: Resources;
  readonly version: Version;
  readonly isDeprecated: boolean;
};

/** Suffixes of the components that describe a resource: `UserCreate`. */
const ENDINGS = { record: "", create: "Create", replace: "Replace", update: "Update", list: "List" } as const;

/** Names of other components, which no resource may take. */
const reserved = (): string[] => [
  "Problem",
  "Link",
  "NewPassword",
  ...[PAGE_SCHEMAS, TASK_SCHEMAS, namedSchemas(), signUpSchemas({}, {})].flatMap(Object.keys),
];

const keys = new WeakMap<Resources, ReadonlyMap<string, string>>();

/** The key of a component: `User`, `UserCreate`. */
export function keyOf({ resources }: ApiVersion, { description }: Resource, part: keyof typeof ENDINGS): string {
  const known = keys.get(resources) ?? componentKeys(wordsOf(resources), Object.values(ENDINGS), reserved());
  keys.set(resources, known);
  return known.get(wordOf(description, resources))! + ENDINGS[part];
}

const wordsOf = (resources: Resources) =>
  [...resources.values()].map(({ description }) => wordOf(description, resources));

/** `User` for users. If two resources have the same singular, the later one is named by its plural: `CheapProducts`. */
function wordOf({ name, singular }: Description, resources: Resources): string {
  const first = [...resources.values()].find(({ description }) => description.singular === singular);
  return pascalCase(first?.description.name === name ? singular : name);
}

/** `blog post` → `BlogPost` */
export const pascalCase = (text: string): string =>
  text.replace(/(?:^|[^a-zA-Z0-9]+)([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** The name of a field, a relation or a filter: in camelCase since version 2. */
export const nameIn = ({ name }: { readonly name: string }, { version }: Pick<ApiVersion, "version">): string =>
  version === 1 ? name : camelCase(name);

/** Relations to resources that are served. */
export const relationsOf = ({ resources }: ApiVersion, { relations }: Resource): Relation[] =>
  relations.filter(({ target }) => resources.has(target));

export const collectionsOf = ({ resources }: ApiVersion, { collections, description }: Resource): Collection[] =>
  [...collections.values()].filter(({ name }) => resources.has(description.collections[name]!.resource));

import type { Catalog } from "../../../db/catalog/catalog.ts";
import { AUTH_SCHEMAS } from "../../auth/responses.ts";
import type { Version } from "../../conventions/version.ts";
import type { Parameter } from "../../openapi/document.ts";
import { componentKeys } from "../../openapi/schema-parts.ts";
import type { Description } from "../descriptions/index.ts";
import type { Collection, Relation, Resource, ResourceField, Resources } from "../resource.ts";

/** The same for all versions, and for as long as the service runs. */
export type ApiOptions = {
  /** The URL of the service. */
  readonly baseUrl: string;
  readonly anonymousRole: string;
  /** Whether anonymous callers may change resources whose description has an editor. */
  readonly isOpen: boolean;
  readonly hasAccounts: boolean;
  readonly hasTasks: boolean;
  /** Maximum records of one POST. */
  readonly maxRecords: number;
};

/** The resources in one version: the subject of one document. */
export type ApiVersion = ApiOptions & {
  readonly catalog: Catalog;
  readonly resources: Resources;
  readonly version: Version;
  /** Names of fields in camelCase. */
  readonly isCamel: boolean;
  readonly isDeprecated: boolean;
};

/** Suffixes of the components that describe a resource: `UserCreate`. */
const ENDINGS = { record: "", create: "Create", replace: "Replace", update: "Update", list: "List" } as const;

/** Names of other components, which no resource may take. */
const RESERVED = [
  ...["Problem", "Pagination", "PageLinks", "Link", "Task", "TaskList", "AcceptedTask"],
  ...Object.keys(AUTH_SCHEMAS),
];

const keys = new WeakMap<Resources, ReadonlyMap<string, string>>();

/** The key of a component: `User`, `UserCreate`. */
export function keyOf({ resources }: ApiVersion, { description }: Resource, part: keyof typeof ENDINGS): string {
  const known = keys.get(resources) ?? componentKeys(wordsOf(resources), Object.values(ENDINGS), RESERVED);
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

/** Relations to resources that are served. */
export const relationsOf = ({ resources }: ApiVersion, { relations }: Resource): Relation[] =>
  [...relations.values()].filter(({ target }) => resources.has(target));

export const collectionsOf = ({ resources }: ApiVersion, { collections, description }: Resource): Collection[] =>
  [...collections.values()].filter(({ name }) => resources.has(description.collections[name]!.resource));

/** The path of an operation: of the resource itself, or of a collection of another resource's record. */
export type OperationPath = {
  readonly resource: Resource;
  /** The parameters of the path. */
  readonly ids: readonly Parameter[];
  readonly parent: Parent | null;
};

/** `field` is the one whose value is in the path. */
type Parent = { readonly resource: Resource; readonly field: ResourceField };

/** `Article`, and `UserArticle` in a collection of users. */
export const keyIn = (api: ApiVersion, path: OperationPath): string =>
  `${parentKey(api, path)}${keyOf(api, path.resource, "record")}`;

export const parentKey = (api: ApiVersion, { parent }: OperationPath): string =>
  parent ? keyOf(api, parent.resource, "record") : "";

/** ` of a user` */
export const ofParent = ({ parent }: OperationPath): string =>
  parent ? ` of ${one(parent.resource.description.singular)}` : "";

/** `an article`, `a user` */
export const one = (singular: string): string => `${/^[aeio]/i.test(singular) ? "an" : "a"} ${singular}`;

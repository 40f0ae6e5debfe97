import { MAX_LIMIT } from "../../../rest-gateway/conventions/paging.ts";
import type { Filter, Resource } from "../../../rest-gateway/resources/resource.ts";
import { conventionParameters, countParameter } from "../conventions/parameters.ts";
import type { Parameter, Reference } from "../document.ts";
import { schemaOf, textSchemaOf } from "../json-schema.ts";
import { type Preference, pathParameter, preferParameter, queryParameter, refer, shared } from "../schema-parts.ts";
import { type ApiVersion, nameIn, pascalCase, relationsOf } from "./version.ts";

const PREFERENCES: readonly Preference[] = [
  ["dialect=detail", 'errors are formatted as `{"detail":{"code","message"}}`', "read list create replace"],
  ["dialect=flat", 'errors are formatted as `{"error","message","field"}`', "read list create replace"],
  ["dialect=case", "names of fields are in camelCase", "read list create replace"],
  ["dialect=envelope", "a list with `skip` and `limit` is returned in an envelope with the total", "list"],
  ["respond-async", "the response is 202, and a task handles the request", "list create"],
  ["dialect=partial", "absent fields keep their values", "replace"],
  ["handling=strict", "unknown preferences and fields are errors", "read list create replace"],
];

const ONLY_VERSION_1: readonly string[] = ["dialect=case", "dialect=envelope"];

function prefer({ version, hasTasks }: ApiVersion, operation: string): Parameter {
  const served = PREFERENCES.filter(([name]) =>
    name === "respond-async" ? hasTasks : version === 1 || !ONLY_VERSION_1.includes(name),
  );
  return preferParameter('Separated by commas; several dialects as `dialect="flat case"`:', served, operation);
}

/** Parameters that all resources share, by their key in `components`. */
export const sharedParameters = (api: ApiVersion): Readonly<Record<string, Parameter>> => ({
  ...conventionParameters(api.version),
  cascade: queryParameter(
    "cascade",
    "Whether to delete the records that refer to this one too. Otherwise they prevent the deletion.",
    { type: "boolean", default: false },
  ),
  "prefer.read": prefer(api, "read"),
  "prefer.list": prefer(api, "list"),
  "prefer.create": prefer(api, "create"),
  "prefer.replace": prefer(api, "replace"),
});

/** Parameters of one resource, such as `posts.sort`. */
export const resourceParameters = (api: ApiVersion, resource: Resource): [string, Parameter][] =>
  parametersOf(api, resource).map((parameter) => [`${resource.description.name}.${parameter.name}`, parameter]);

/** References to the parameters of a list. */
export const listParameters = (api: ApiVersion, resource: Resource): Reference[] =>
  shared(...resourceParameters(api, resource).map(([key]) => key));

export const fieldsParameter = ({ description }: Resource): Reference =>
  refer("parameters", `${description.name}.fields`);

function parametersOf(api: ApiVersion, resource: Resource): Parameter[] {
  return [
    queryParameter("fields", describeFields(api, resource)),
    queryParameter("sort", describeSort(api, resource)),
    queryParameter(
      "order",
      "The direction of fields in `sort` that have none. Without `sort`, that of the default order.",
      {
        type: "string",
        enum: ["asc", "desc"],
      },
    ),
    ...(resource.description.search === null ? [] : [KEYWORD]),
    ...pagingOf(api, resource),
    ...[...new Set(resource.filterNamed.values())].map((filter) => filterParameter(api, filter)),
  ];
}

const KEYWORD = queryParameter("keyword", "Records that contain this text, ignoring case. At most 10,000 characters.");

const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");

function describeFields(api: ApiVersion, resource: Resource): string {
  const names = code([...resource.fields.map((field) => nameIn(field, api)), "_links"]);
  const related = relationsOf(api, resource).map(
    (relation) => `\`${nameIn(relation, api)}.${relation.resource().key.name}\``,
  );
  const dotted = related.length > 0 ? `, and fields of related records such as ${related.join(", ")}` : "";
  return `The fields of each record, separated by commas: ${names}${dotted}. The default is all fields.`;
}

function describeSort(api: ApiVersion, { sorts, order, key }: Resource): string {
  const names = [...sorts].map((field) => nameIn(field, api));
  const usual = order.map(({ field, direction }) => `${nameIn(field, api)}:${direction}`).join(",") || nameIn(key, api);
  return `Fields separated by commas, each optionally with \`:asc\` or \`:desc\`: ${code(names)}. The default is \`${usual}\`.`;
}

/** Version 1 has three ways to page, which cannot be combined. */
function pagingOf({ version }: ApiVersion, { description }: Resource): Parameter[] {
  const { pageSize, list } = description;
  const most = `At most ${MAX_LIMIT}; a larger number has the same effect.`;
  const limit = countParameter("limit", `Records on a page. ${most}`, version === 1 ? 0 : 1, pageSize);
  if (version === 2) return [countParameter("page", "The page, from 1.", 1, 1), limit];
  const alone = list === "array" ? " or without either" : "";
  return [
    countParameter("skip", "The number of records to skip.", 0),
    limit,
    countParameter("page", `The number of the page. The first is 1 with \`limit\`, and 0 with \`size\`${alone}.`, 0),
    countParameter("size", `Records on a page. With it, \`page\` counts from 0. ${most}`, 1, pageSize),
  ];
}

function filterParameter(api: ApiVersion, filter: Filter): Parameter {
  const { operator, about, field } = filter;
  const { shape } = field.column;
  const schema = operator === "has" ? schemaOf({ ...shape, isArray: false }) : textSchemaOf(shape);
  return queryParameter(nameIn(filter, api), about, schema);
}

/** `{userId}` */
export function idParameter({ description: { singular }, key }: Resource): Parameter {
  const name = pascalCase(singular);
  const id = `${name[0]!.toLowerCase()}${name.slice(1)}Id`;
  return pathParameter(id, `The id of the ${singular}.`, schemaOf(key.column.shape));
}

import { MAX_LIMIT } from "../../conventions/paging.ts";
import type { JsonSchema, Parameter, Reference } from "../../openapi/document.ts";
import { schemaOf, textSchemaOf } from "../../openapi/json-schema.ts";
import { headerParameter, queryParameter, refer } from "../../openapi/schema-parts.ts";
import { camelCase, type Filter, type Resource } from "../resource.ts";
import { type ApiVersion, nameIn, pascalCase, relationsOf } from "./version.ts";

/** What a client may prefer, and what it means. */
const PREFERENCES = {
  "dialect=detail": 'errors are told as `{"detail":{"code","message"}}`',
  "dialect=flat": 'errors are told as `{"error","message","field"}`',
  "dialect=case": "names of fields are in camelCase",
  "dialect=envelope": "a list by `skip` and `limit` stands in an envelope with its total",
  "dialect=partial": "what is left out stays as it is",
  "handling=strict": "preferences and fields that are not known are refused by name",
  "respond-async": "the answer is 202 and a task that does the work",
} as const;

type Preference = keyof typeof PREFERENCES;

function prefer({ version, hasTasks }: ApiVersion, ...more: readonly Preference[]): Parameter {
  const ofVersion: readonly Preference[] = version === 1 ? ["dialect=case", ...more] : more.filter(isOfEveryVersion);
  const all: readonly Preference[] = ["dialect=detail", "dialect=flat", ...ofVersion, "handling=strict"];
  const lines = all
    .filter((preference) => hasTasks || preference !== "respond-async")
    .map((preference) => `- \`${preference}\`: ${PREFERENCES[preference]}`);
  return headerParameter(
    "Prefer",
    ['With commas in between; several dialects as `dialect="flat case"`:', ...lines].join("\n"),
  );
}

const isOfEveryVersion = (preference: Preference) => preference !== "dialect=envelope" && preference !== "dialect=case";

/** Parameters that the resources share, by key. */
export function sharedParameters(api: ApiVersion): Readonly<Record<string, Parameter>> {
  const version: JsonSchema = { type: "string", enum: [String(api.version)] };
  return {
    version: queryParameter(
      "version",
      "The version, where the address names none; another one is another document.",
      version,
    ),
    "X-API-Version": headerParameter("X-API-Version", "The same as a header; `Accept-Version` is one too.", version),
    "If-None-Match": headerParameter("If-None-Match", "An `ETag`: 304 when the answer would have it still."),
    "If-Modified-Since": headerParameter("If-Modified-Since", "A `Last-Modified`: 304 when it has not changed since."),
    "If-Match": headerParameter(
      "If-Match",
      "The `ETag` that was read: 412 when somebody else has changed it meanwhile.",
    ),
    "If-Unmodified-Since": headerParameter("If-Unmodified-Since", "The same by `Last-Modified`, in whole seconds."),
    cascade: queryParameter("cascade", "Whether what refers to it is deleted too; otherwise it keeps the record.", {
      type: "boolean",
      default: false,
    }),
    "prefer.read": prefer(api),
    "prefer.list": prefer(api, "dialect=envelope", "respond-async"),
    "prefer.create": prefer(api, "respond-async"),
    "prefer.replace": prefer(api, "dialect=partial"),
  };
}

export const shared = (...keys: readonly string[]): Reference[] => keys.map((key) => refer("parameters", key));

/** Those of one resource, as `articles.sort`. */
export const resourceParameters = (api: ApiVersion, resource: Resource): [string, Parameter][] =>
  parametersOf(api, resource).map((parameter) => [`${resource.description.name}.${parameter.name}`, parameter]);

/** References to all that a list takes. */
export const listParameters = (api: ApiVersion, resource: Resource): Reference[] =>
  shared(...resourceParameters(api, resource).map(([key]) => key));

export const fieldsParameter = ({ description }: Resource): Reference =>
  refer("parameters", `${description.name}.fields`);

function parametersOf(api: ApiVersion, resource: Resource): Parameter[] {
  return [
    queryParameter("fields", describeFields(api, resource)),
    queryParameter("sort", describeSort(api, resource)),
    queryParameter("order", "The direction of what `sort` names without one, or of the usual order.", {
      type: "string",
      enum: ["asc", "desc"],
    }),
    queryParameter("keyword", "Records that have this text in them, whatever its case."),
    ...pagingOf(api, resource),
    ...[...new Set(resource.filterNamed.values())].map((filter) => filterParameter(api, filter)),
  ];
}

const code = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(", ");

function describeFields(api: ApiVersion, resource: Resource): string {
  const names = code([...resource.fields.map((field) => nameIn(api, field)), "_links"]);
  const related = relationsOf(api, resource).map(
    (relation) => `\`${nameIn(api, relation)}.${relation.resource().key.name}\``,
  );
  const dotted = related.length > 0 ? `, and fields of related records such as ${related.join(", ")}` : "";
  return `What is told of each record, with commas in between; all fields otherwise. There are ${names}${dotted}.`;
}

function describeSort(api: ApiVersion, { sorts, order }: Resource): string {
  const names = [...sorts].map((field) => nameIn(api, field));
  const usual = order.map(({ field, direction }) => `${nameIn(api, field)}:${direction}`).join(",");
  return `Fields with commas in between, each with \`:asc\` or \`:desc\`; \`${usual}\` otherwise. There are ${code(names)}.`;
}

/** Version 1 has three ways to page, and they don't mix. */
function pagingOf({ version }: ApiVersion, { description }: Resource): Parameter[] {
  const { pageSize, list } = description;
  const most = `At most ${MAX_LIMIT}: more are not given.`;
  const skip = { minimum: 0, about: "Records before the first one." };
  const limit = { minimum: version === 1 ? 0 : 1, usual: pageSize, about: `Records on a page. ${most}` };
  const size = { minimum: 1, usual: pageSize, about: `Records on a page where \`page\` counts from 0. ${most}` };
  if (version === 2) {
    return [count("page", { minimum: 1, usual: 1, about: "The page, from 1." }), count("limit", limit)];
  }
  const alone = list === "array" ? "; from 0 where it stands alone" : "";
  const page = { minimum: 0, about: `The page: from 1 beside \`limit\`, from 0 beside \`size\`${alone}.` };
  return [count("skip", skip), count("limit", limit), count("page", page), count("size", size)];
}

type Count = { readonly minimum: number; readonly usual?: number; readonly about: string };

const count = (name: string, { minimum, usual, about }: Count): Parameter =>
  queryParameter(name, about, { type: "integer", minimum, ...(usual !== undefined && { default: usual }) });

function filterParameter(api: ApiVersion, { name, operator, field, about }: Filter): Parameter {
  const { shape } = field.column;
  const schema = operator === "has" ? schemaOf({ ...shape, isArray: false }) : textSchemaOf(shape);
  return queryParameter(api.version === 2 ? camelCase(name) : name, about, schema);
}

/** `{userId}` */
export const idParameter = ({ description, key }: Resource): Parameter => ({
  name: idName(description.singular),
  in: "path",
  description: `The id of the ${description.singular}.`,
  required: true,
  schema: schemaOf(key.column.shape),
});

export function idName(singular: string): string {
  const name = pascalCase(singular);
  return `${name[0]!.toLowerCase()}${name.slice(1)}Id`;
}

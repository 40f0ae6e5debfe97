import { badParameter } from "../../conventions/problem.ts";
import { LINKS, nameIn, type Selection, type Style } from "../request.ts";
import type { Relation, Resource } from "../resource.ts";

/** Maximum relations in a name: `article.author.name` has two. */
const MAX_DEPTH = 3;

/** Every field, and the links if the version has them. */
export const wholeRecord = (resource: Resource, hasLinks: boolean): Selection => ({
  fields: resource.fields,
  relations: [],
  hasLinks,
});

/** `fields=title,author.name`. Throws RestError for an unknown field. */
export function parseSelection(text: string, resource: Resource, style: Style): Selection {
  const paths = text.split(",").map((name) => name.trim().split("."));
  if (paths.some((path) => path.length > MAX_DEPTH + 1)) {
    throw badParameter("fields", `fields must go through at most ${MAX_DEPTH} relations`);
  }
  return select(paths, resource, style);
}

function select(paths: readonly (readonly string[])[], resource: Resource, style: Style): Selection {
  const names = new Set(paths.map(([name]) => name!));
  for (const name of names) refuseUnknown(name, resource, style);
  const isNamed = ({ name, camelName }: Relation) => names.has(name) || names.has(camelName);
  const nested = ({ name, camelName }: Relation) =>
    paths.filter(([first]) => first === name || first === camelName).map((path) => path.slice(1));
  for (const [name = "", ...more] of paths) {
    if (more.length > 0 && !isRelation(name, resource)) throw badParameter("fields", `${name} has no fields`);
  }
  return {
    fields: resource.fields.filter((field) => names.has(field.name) || names.has(field.camelName)),
    relations: [...resource.relations.values()]
      .filter(isNamed)
      .map((relation) => ({ relation, selection: selectNested(nested(relation), relation.resource(), style) })),
    hasLinks: names.has(LINKS),
  };
}

/** `author` alone selects all of its fields. */
function selectNested(paths: readonly (readonly string[])[], resource: Resource, style: Style): Selection {
  return paths.some((path) => path.length === 0) ? wholeRecord(resource, false) : select(paths, resource, style);
}

const isRelation = (text: string, { relations }: Resource) =>
  relations.has(text) || [...relations.values()].some(({ camelName }) => camelName === text);

function refuseUnknown(name: string, resource: Resource, style: Style): void {
  const { description, fields, fieldNamed, relations } = resource;
  if (fieldNamed.has(name) || isRelation(name, resource) || name === LINKS) return;
  const known = [...fields, ...relations.values()].map((named) => nameIn(named, style));
  throw badParameter("fields", `"${name}" is not a field of ${description.name}: use ${[...known, LINKS].join(", ")}`);
}

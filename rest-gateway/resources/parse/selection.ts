import { badParameter } from "../../conventions/problem.ts";
import { LINKS, nameIn, type Selection, type Style } from "../request.ts";
import type { Relation, Resource, ResourceField } from "../resource.ts";

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

type Path = readonly string[];

function select(paths: readonly Path[], resource: Resource, style: Style): Selection {
  for (const [name = ""] of paths) refuseUnknown(name, resource, style);
  for (const [name = "", ...more] of paths) {
    if (more.length > 0 && !resource.relationNamed.has(name)) throw badParameter("fields", `${name} has no fields`);
  }
  const below = ({ name, camelName }: ResourceField | Relation): readonly Path[] =>
    paths.filter(([first]) => first === name || first === camelName).map((path) => path.slice(1));
  return {
    fields: resource.fields.filter((field) => below(field).length > 0),
    relations: resource.relations.flatMap((relation) => {
      const inner = below(relation);
      return inner.length === 0 ? [] : [{ relation, selection: selectNested(inner, relation.resource(), style) }];
    }),
    hasLinks: paths.some(([name]) => name === LINKS),
  };
}

/** `author` alone selects all of its fields. */
const selectNested = (paths: readonly Path[], resource: Resource, style: Style): Selection =>
  paths.some((path) => path.length === 0) ? wholeRecord(resource, false) : select(paths, resource, style);

function refuseUnknown(name: string, resource: Resource, style: Style): void {
  const { fields, fieldNamed, relations, relationNamed } = resource;
  if (fieldNamed.has(name) || relationNamed.has(name) || name === LINKS) return;
  const known = [...fields, ...relations].map((named) => nameIn(named, style));
  throw badParameter("fields", `"${name}" is not a field of ${resource.name}: use ${[...known, LINKS].join(", ")}`);
}

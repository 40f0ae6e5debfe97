import { getNamedType, Kind, print } from "./library.js";

/** @typedef {any} Node A node of a document. */
/** @typedef {any} Type An object type, an interface or a union; null if the schema does not have it. */

/**
 * The document with the fields of its fragments in the places that use them. A fragment of another type than the place stays as an inline
 * fragment. Fields that occur twice become one.
 * @param {Node} document @param {import("graphql").GraphQLSchema} schema @returns {Node}
 */
export function withoutFragments(document, schema) {
  const isFragment = (/** @type {Node} */ { kind }) => kind === Kind.FRAGMENT_DEFINITION;
  const fragments = new Map(
    document.definitions.filter(isFragment).map((/** @type {Node} */ each) => [each.name.value, each]),
  );

  /** @param {Node[]} selections @param {Type} type @param {readonly string[]} within The fragments that lead here. @returns {Node[]} */
  const merge = (selections, type, within) => {
    /** @type {Map<string, Node>} */
    const merged = new Map();
    for (const each of selections.flatMap((selection) => replaced(selection, type, within))) {
      // With other directives, it may be left out when this one is not.
      const key =
        each.kind === Kind.FIELD
          ? [each.alias ?? each.name, ...(each.directives ?? [])].map(print).join(" ")
          : print(each);
      const same = merged.get(key);
      if (!same?.selectionSet) merged.set(key, each);
      else
        merged.set(
          key,
          withSelections(
            same,
            merge([...same.selectionSet.selections, ...each.selectionSet.selections], typeBelow(same, type), within),
          ),
        );
    }
    return [...merged.values()];
  };

  /** @param {Node} selection @param {Type} type @param {readonly string[]} within @returns {Node[]} */
  const replaced = (selection, type, within) => {
    const name = selection.kind === Kind.FRAGMENT_SPREAD ? selection.name.value : null;
    const fragment = name === null ? selection : fragments.get(name);
    // A fragment that does not exist, or contains itself, is an error that the service reports.
    if (!fragment?.selectionSet || (name !== null && within.includes(name))) return [selection];
    const inner = typeBelow(fragment, type);
    const below = merge(fragment.selectionSet.selections, inner, name === null ? within : [...within, name]);
    if (selection.kind === Kind.FIELD) return [withSelections(selection, below)];
    if (inner === type && !selection.directives?.length && !fragment.directives?.length) return below;
    const { typeCondition } = fragment;
    return [withSelections({ kind: Kind.INLINE_FRAGMENT, typeCondition, directives: selection.directives }, below)];
  };

  /** @param {Node} node @param {Type} type @returns {Type} */
  const typeBelow = (node, type) => {
    if (node.kind === Kind.FIELD) return getNamedType(type?.getFields?.()[node.name.value]?.type) ?? null;
    return node.typeCondition ? (schema.getType(node.typeCondition.name.value) ?? null) : type;
  };

  const definitions = document.definitions
    .filter((/** @type {Node} */ each) => each.kind === Kind.OPERATION_DEFINITION)
    .map((/** @type {Node} */ each) =>
      withSelections(each, merge(each.selectionSet.selections, schema.getRootType(each.operation), [])),
    );
  return { ...document, definitions };
}

/** @param {Node} node @param {Node[]} selections */
const withSelections = (node, selections) => ({ ...node, selectionSet: { kind: Kind.SELECTION_SET, selections } });

import {
  getNamedType,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isRequiredArgument,
  isRequiredInputField,
  isUnionType,
  Kind,
  parse,
  parseValue,
} from "./library.js";

// Changes of an operation, as the explorer makes them. Nodes are those of graphql-js, which the explorer has parsed for itself and changes.

/** @typedef {any} Node A node of a document, which may be changed. */
/** @typedef {import("graphql").GraphQLInputType} InputType */

/** @param {string} value */
const nameNode = (value) => ({ kind: Kind.NAME, value });

/** The document; null if it has a syntax error. @param {string} text @returns {Node | null} */
export function documentOf(text) {
  if (text.replaceAll(/#.*/g, "").trim() === "") return { kind: Kind.DOCUMENT, definitions: [] };
  try {
    return parse(text);
  } catch {
    return null;
  }
}

/** The operations of a document. @param {Node | null} document @returns {Node[]} */
export const operationsOf = (document) =>
  (document?.definitions ?? []).filter((/** @type {Node} */ { kind }) => kind === Kind.OPERATION_DEFINITION);

/**
 * The operation of a kind, which is created if there is none.
 * @param {Node} document
 * @param {string} kind `query`, `mutation` or `subscription`
 * @returns {Node}
 */
export function ensureOperation(document, kind) {
  const existing = operationsOf(document).find(({ operation }) => operation === kind);
  if (existing) return existing;
  const created = { kind: Kind.OPERATION_DEFINITION, operation: kind, selectionSet: newSelections([]) };
  // Several operations need names.
  for (const each of [...operationsOf(document), created])
    each.name ??= nameNode(`My${each.operation[0].toUpperCase()}${each.operation.slice(1)}`);
  document.definitions.push(created);
  return created;
}

/** @param {Node[]} selections */
const newSelections = (selections) => ({ kind: Kind.SELECTION_SET, selections });

/** The selection of a field in its parent. @param {Node | null} parent @param {string} name @returns {Node | null} */
export const selectionOf = (parent, name) =>
  parent?.selectionSet?.selections.find((/** @type {Node} */ each) => each.name?.value === name && !each.alias) ??
  parent?.selectionSet?.selections.find(
    (/** @type {Node} */ each) => each.kind === Kind.FIELD && each.name.value === name,
  ) ??
  null;

/** Adds a field, with the arguments that it needs and one field below it. @param {Node} parent @param {import("graphql").GraphQLField<unknown, unknown>} field */
export function addField(parent, field) {
  parent.selectionSet ??= newSelections([]);
  parent.selectionSet.selections.push(newField(field, 4));
}

/** Removes a field. A parent without fields would be a syntax error: it gets `__typename`. @param {Node} parent @param {Node} selection */
export function removeField(parent, selection) {
  const { selections } = parent.selectionSet;
  selections.splice(selections.indexOf(selection), 1);
  if (selections.length === 0 && parent.kind === Kind.FIELD)
    selections.push({ kind: Kind.FIELD, name: nameNode("__typename") });
}

/** @param {import("graphql").GraphQLField<unknown, unknown>} field @param {number} depth @returns {Node} */
function newField({ name, type, args }, depth) {
  const named = getNamedType(type);
  const required = args.filter(isRequiredArgument);
  return {
    kind: Kind.FIELD,
    name: nameNode(name),
    arguments: required.map((arg) => newArgument(arg.name, arg.type)),
    ...(!isLeafType(named) && { selectionSet: newSelections([firstFieldOf(named, depth - 1)]) }),
  };
}

/** The field that says most about a row: a leaf, or of a connection, its rows. @param {any} type @param {number} depth @returns {Node} */
function firstFieldOf(type, depth) {
  const typename = { kind: Kind.FIELD, name: nameNode("__typename") };
  if (isUnionType(type) || depth === 0) return typename;
  const fields = /** @type {import("graphql").GraphQLField<unknown, unknown>[]} */ (Object.values(type.getFields()));
  const free = fields.filter(({ args }) => !args.some(isRequiredArgument));
  const edges = free.find(({ name }) => name === "edges" || name === "node");
  const leaves = free.filter((field) => isLeafType(getNamedType(field.type)));
  const field = edges ?? leaves.find(({ name }) => name === "id") ?? leaves[0] ?? free[0];
  return field ? newField(field, depth) : typename;
}

/** @param {string} name @param {InputType} type */
export const newArgument = (name, type) => ({ kind: Kind.ARGUMENT, name: nameNode(name), value: newValue(type) });

/** @param {string} name @param {InputType} type */
export const newInputField = (name, type) => ({ kind: Kind.OBJECT_FIELD, name: nameNode(name), value: newValue(type) });

/** A first value of a type, with what an input object requires. @param {InputType} type @returns {Node} */
function newValue(type) {
  if (/^\[/.test(String(type))) return { kind: Kind.LIST, values: [newValue(getNamedType(type))] };
  const named = getNamedType(type);
  if (isEnumType(named)) return { kind: Kind.ENUM, value: named.getValues()[0]?.name ?? "" };
  if (isInputObjectType(named)) {
    const required = Object.values(named.getFields()).filter(isRequiredInputField);
    return { kind: Kind.OBJECT, fields: required.map((field) => newInputField(field.name, field.type)) };
  }
  if (named.name === "Boolean") return { kind: Kind.BOOLEAN, value: true };
  if (named.name === "Int") return { kind: Kind.INT, value: "10" };
  if (named.name === "Float") return { kind: Kind.FLOAT, value: "1.0" };
  return { kind: Kind.STRING, value: named.name === "ID" ? "1" : "" };
}

/** The value that a person has typed: `$id`, `[1, 2]`, and text without quotes where the type is a text. Null if it is none. @param {string} text @param {InputType} type @returns {Node | null} */
export function inputValueOf(text, type) {
  try {
    const value = parseValue(text);
    const isText = !["Int", "Float", "Boolean"].includes(getNamedType(type).name) && !/^\[/.test(String(type));
    if (isText && ![Kind.STRING, Kind.VARIABLE, Kind.NULL, Kind.OBJECT, Kind.LIST].includes(value.kind))
      throw new Error();
    return value;
  } catch {
    const isNumber = ["Int", "Float"].includes(getNamedType(type).name);
    return isNumber || /^[[{$]/.test(text) ? null : { kind: Kind.STRING, value: text };
  }
}

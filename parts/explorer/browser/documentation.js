import { byId, create } from "./dom.js";
import { getNamedType, isEnumType, isInputObjectType, isInterfaceType, isObjectType, isUnionType } from "./library.js";

/** @typedef {import("graphql").GraphQLSchema} Schema */
/** @typedef {import("graphql").GraphQLNamedType} NamedType */
/** @typedef {import("graphql").GraphQLArgument | import("graphql").GraphQLInputField} Input */
/** @typedef {import("graphql").GraphQLField<unknown, unknown> | Input} Member A field, an argument, or a field of an input object. */
/** @typedef {(name: string) => HTMLButtonElement} LinkTo */

const page = byId("documentation-page");
const search = byId("documentation-search", HTMLInputElement);

/** The most results of a search that are shown. */
const MAX_FOUND = 100;

/** The documentation of the schema: its types, their fields and arguments, and which of them are deprecated. */
export function createDocumentation() {
  /** @type {Schema | null} */
  let schema = null;
  /** The names of the types that lead to the one that is shown. @type {string[]} */
  let path = [];

  /** Shows the type at the end of a path. @param {string[]} names */
  function show(names) {
    path = names;
    search.value = "";
    render();
    const heading = page.querySelector("h3");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus();
    page.scrollTop = 0;
  }

  /** @param {string} text @param {() => void} onClick */
  function linkOf(text, onClick) {
    const link = create("button", { type: "button", className: "link" }, text);
    link.addEventListener("click", onClick);
    return link;
  }

  /** @type {LinkTo} */
  const linkTo = (name) => linkOf(name, () => show([...path.filter((each) => each !== name), name]));

  function render() {
    if (!schema) return;
    const word = search.value.trim().toLowerCase();
    const type = schema.getType(path.at(-1) ?? "");
    if (word !== "") page.replaceChildren(...found(schema, word, linkTo));
    else if (type) page.replaceChildren(trail(), ...typePage(type, schema, linkTo));
    else page.replaceChildren(...firstPage(schema, linkTo));
  }

  /** `Schema › Query › User` */
  function trail() {
    const steps = [
      linkOf("Schema", () => show([])),
      ...path.slice(0, -1).map((name, i) => linkOf(name, () => show(path.slice(0, i + 1)))),
    ];
    return create("nav", { className: "trail", ariaLabel: "Types on the way" }, ...steps);
  }

  search.addEventListener("input", render);
  return {
    /** @param {Schema} next */
    use(next) {
      schema = next;
      render();
    },
    /** @param {string} text */
    fail(text) {
      schema = null;
      page.replaceChildren(create("p", { className: "hint" }, text));
    },
    /** @param {string} name */
    show: (name) => show([name]),
  };
}

/** @param {Schema} schema @param {LinkTo} linkTo */
function firstPage(schema, linkTo) {
  const roots = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].filter(
    (type) => !!type,
  );
  const types = typesOf(schema).filter((type) => !roots.some((root) => root === type));
  return [
    create("h3", {}, "Schema"),
    ...describe(schema.description),
    ...section(
      "Operations",
      roots.map(({ name }) => create("li", {}, linkTo(name))),
    ),
    ...section(
      "Types",
      types.map(({ name }) => create("li", {}, linkTo(name))),
    ),
  ];
}

/** @param {Schema} schema */
const typesOf = (schema) =>
  Object.values(schema.getTypeMap())
    .filter(({ name }) => !name.startsWith("__"))
    .toSorted((a, b) => a.name.localeCompare(b.name));

/** Types and fields whose name contains the word. @param {Schema} schema @param {string} word @param {LinkTo} linkTo */
function found(schema, word, linkTo) {
  const items = typesOf(schema).flatMap((type) => {
    const isFound = type.name.toLowerCase().includes(word);
    const members = membersOf(type).filter(({ name }) => name.toLowerCase().includes(word));
    return [
      ...(isFound ? [create("li", {}, linkTo(type.name))] : []),
      ...members.map((member) => create("li", {}, linkTo(type.name), `.${member.name}`)),
    ];
  });
  if (items.length === 0) return [create("p", { className: "hint" }, "No type or field has this name.")];
  const more = items.length - MAX_FOUND;
  return [
    create("ul", {}, ...items.slice(0, MAX_FOUND)),
    ...(more > 0 ? [create("p", { className: "hint" }, `${more} more: write more of the name.`)] : []),
  ];
}

/** @param {NamedType} type @returns {Member[]} */
const membersOf = (type) =>
  isObjectType(type) || isInterfaceType(type) || isInputObjectType(type) ? Object.values(type.getFields()) : [];

/** @param {NamedType} type @param {Schema} schema @param {LinkTo} linkTo */
function typePage(type, schema, linkTo) {
  const names = (/** @type {readonly NamedType[]} */ types) => types.map(({ name }) => create("li", {}, linkTo(name)));
  const hasInterfaces = isObjectType(type) || isInterfaceType(type);
  const values = isEnumType(type) ? type.getValues() : [];
  return [
    create("h3", {}, type.name, " ", create("span", { className: "muted" }, kindOf(type))),
    ...describe(type.description),
    ...section("Implements", hasInterfaces ? names(type.getInterfaces()) : []),
    ...section(
      "Fields",
      membersOf(type).map((member) => memberItem(member, linkTo)),
    ),
    ...section(
      "Values",
      values.map((value) => create("li", {}, create("code", {}, value.name), ...notesOf(value))),
    ),
    ...section("Types", isUnionType(type) || isInterfaceType(type) ? names(schema.getPossibleTypes(type)) : []),
  ];
}

/** @param {NamedType} type */
function kindOf(type) {
  if (isObjectType(type)) return "object";
  if (isInputObjectType(type)) return "input";
  if (isEnumType(type)) return "enum";
  return isInterfaceType(type) ? "interface" : isUnionType(type) ? "union" : "scalar";
}

/** @param {string} title @param {HTMLElement[]} items */
const section = (title, items) =>
  items.length === 0 ? [] : [create("h4", {}, title), create("ul", { className: "members" }, ...items)];

/** A paragraph in which words in backticks are code. @param {string | null | undefined} text */
function describe(text) {
  if (!text) return [];
  const parts = text.split("`").map((part, i) => (i % 2 === 0 ? part : create("code", {}, part)));
  return [create("p", { className: "description" }, ...parts)];
}

/** @param {{ description?: string | null | undefined, deprecationReason?: string | null | undefined }} part */
const notesOf = ({ description, deprecationReason }) => [
  ...(deprecationReason ? [create("p", { className: "warn" }, `Deprecated: ${deprecationReason}`)] : []),
  ...describe(description),
];

/** `tags: [String!]!`, with what the field accepts below it. @param {Member} member @param {LinkTo} linkTo @returns {HTMLElement} */
function memberItem(member, linkTo) {
  const args = "args" in member ? member.args : [];
  return create(
    "li",
    {},
    create(
      "code",
      {},
      create(member.deprecationReason ? "s" : "strong", {}, member.name),
      ": ",
      ...typeLink(member.type, linkTo),
      ...("defaultValue" in member ? [defaultOf(member)] : []),
    ),
    ...notesOf(member),
    ...(args.length > 0 ? [create("ul", { className: "members" }, ...args.map((arg) => memberItem(arg, linkTo)))] : []),
  );
}

/** @param {Input} input */
const defaultOf = ({ type, defaultValue }) =>
  defaultValue === undefined
    ? ""
    : ` = ${isEnumType(getNamedType(type)) ? String(defaultValue) : JSON.stringify(defaultValue)}`;

/** `[`, a link to the type, `!]!` @param {import("graphql").GraphQLType} type @param {LinkTo} linkTo */
function typeLink(type, linkTo) {
  const { name } = getNamedType(type);
  const [before = "", after = ""] = String(type).split(name);
  return [before, linkTo(name), after];
}

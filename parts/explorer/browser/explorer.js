import { byId, create } from "./dom.js";
import {
  getNamedType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isRequiredArgument,
  isRequiredInputField,
  print,
} from "./library.js";
import {
  addField,
  documentOf,
  ensureOperation,
  inputValueOf,
  newArgument,
  newInputField,
  operationsOf,
  removeField,
  selectionOf,
} from "./operation.js";

/** @typedef {import("graphql").GraphQLSchema} Schema */
/** @typedef {import("graphql").GraphQLField<unknown, unknown>} Field */
/** @typedef {import("./operation.js").Node} Node */

const tree = byId("tree");
const search = byId("search", HTMLInputElement);

/** The most fields that one list shows. The search finds the others. */
const MAX_FIELDS = 200;

/**
 * A tree of the schema in which checkboxes add fields and arguments to the operation.
 * @param {{ text(): string, change(text: string): void }} editor
 */
export function createExplorer(editor) {
  /** @type {Schema | null} */
  let schema = null;
  /** Groups that the user has opened or closed. @type {Map<string, boolean>} */
  const opened = new Map();
  /** @type {Node | null} */
  let document = null;

  function render() {
    document = documentOf(editor.text());
    if (!schema) return;
    if (!document) {
      const fault = create(
        "p",
        { className: "hint" },
        "The operation has a syntax error. Correct it to use the explorer.",
      );
      return tree.replaceChildren(fault);
    }
    const roots = /** @type {const} */ ([
      ["query", "Queries", schema.getQueryType()],
      ["mutation", "Mutations", schema.getMutationType()],
      ["subscription", "Subscriptions", schema.getSubscriptionType()],
    ]);
    const focused = window.document.activeElement?.id;
    tree.replaceChildren(...roots.flatMap(([kind, title, type]) => (type ? [rootOf(kind, title, type)] : [])));
    if (focused?.startsWith("tree.")) window.document.getElementById(focused)?.focus();
  }

  /** Writes the changed document. */
  function write() {
    if (!document) return;
    const left = operationsOf(document).filter(({ selectionSet }) => selectionSet.selections.length > 0);
    document.definitions = document.definitions.filter(
      (/** @type {Node} */ each) => each.kind !== "OperationDefinition" || left.includes(each),
    );
    editor.change(document.definitions.length === 0 ? "" : print(document));
    render();
  }

  /** @param {string} kind @param {string} title @param {import("graphql").GraphQLObjectType} type */
  function rootOf(kind, title, type) {
    const operation = operationsOf(document).find((each) => each.operation === kind) ?? null;
    const path = `tree.${kind}`;
    const summary = create("summary", { id: path }, title);
    const details = create(
      "details",
      { open: search.value !== "" || (opened.get(path) ?? operation !== null) },
      summary,
    );
    const parent = () => ensureOperation(document, kind);
    const fill = () => {
      if (details.open && details.children.length === 1)
        details.append(...fieldsOf(type, operation, parent, path, search.value));
    };
    fill();
    summary.addEventListener("click", () => opened.set(path, !details.open));
    details.addEventListener("toggle", fill);
    return details;
  }

  /**
   * The fields of a type: those of the operation first.
   * @param {{ getFields(): Record<string, Field> }} type
   * @param {Node | null} selected
   * @param {() => Node} parent
   * @param {string} path
   */
  function fieldsOf(type, selected, parent, path, word = "") {
    const fields = Object.values(type.getFields()).filter(({ name }) =>
      name.toLowerCase().includes(word.toLowerCase().trim()),
    );
    const items = fields
      .slice(0, MAX_FIELDS)
      .map((field) => fieldOf(field, selectionOf(selected, field.name), parent, `${path}.${field.name}`));
    const more = fields.length - items.length;
    const hint = fields.length === 0 ? "No field has this name." : more > 0 ? `${more} more: search for them.` : "";
    return [create("ul", {}, ...items), ...(hint ? [create("p", { className: "hint" }, hint)] : [])];
  }

  /** @param {Field} field @param {Node | null} selection @param {() => Node} parent @param {string} path */
  function fieldOf(field, selection, parent, path) {
    const toggle = () => {
      if (selection) removeField(parent(), selection);
      else addField(parent(), field);
      write();
    };
    const item = create("li", {}, rowOf(path, field, selection !== null, toggle));
    if (!selection) return item;
    if (field.description) item.append(create("p", { className: "hint" }, field.description.replaceAll("`", "")));
    const named = getNamedType(field.type);
    if (field.args.length > 0) {
      selection.arguments ??= [];
      const inputs = field.args.map((arg) =>
        inputOf(arg, isRequiredArgument(arg), selection.arguments, newArgument, `${path}(${arg.name})`),
      );
      item.append(create("ul", { className: "inputs" }, ...inputs));
    }
    if (isObjectType(named) || isInterfaceType(named))
      item.append(...fieldsOf(named, selection, () => selection, path));
    return item;
  }

  /** @param {string} id @param {{ name: string, type: unknown, description?: string | null | undefined, deprecationReason?: string | null | undefined }} part @param {boolean} checked @param {() => void} toggle */
  function rowOf(id, { name, type, description, deprecationReason }, checked, toggle) {
    const box = create("input", { type: "checkbox", id, checked });
    box.addEventListener("change", toggle);
    const label = create(
      "label",
      { htmlFor: id, title: (description ?? "").replaceAll("`", "") },
      deprecationReason ? create("s", {}, name) : name,
    );
    return create("div", { className: "part" }, box, label, create("span", { className: "type" }, String(type)));
  }

  /**
   * An argument, or a field of an input object.
   * @param {import("graphql").GraphQLArgument | import("graphql").GraphQLInputField} input
   * @param {boolean} isRequired
   * @param {Node[]} given The arguments or fields that the operation has.
   * @param {typeof newArgument | typeof newInputField} create_
   * @param {string} path
   * @returns {HTMLLIElement}
   */
  function inputOf(input, isRequired, given, create_, path) {
    const node = given.find(({ name }) => name.value === input.name) ?? null;
    const toggle = () => {
      if (node) given.splice(given.indexOf(node), 1);
      else given.push(create_(input.name, input.type));
      write();
    };
    const item = create("li", {}, rowOf(path, input, node !== null, toggle));
    if (isRequired) item.querySelector(".type")?.classList.add("required");
    if (!node) return item;
    const named = getNamedType(input.type);
    if (isInputObjectType(named) && node.value.kind === "ObjectValue") {
      const inner = Object.values(named.getFields()).map((field) =>
        inputOf(field, isRequiredInputField(field), node.value.fields, newInputField, `${path}.${field.name}`),
      );
      item.append(create("ul", { className: "inputs" }, ...inner));
    } else item.firstElementChild?.append(valueFieldOf(input, node, `${path}=`));
    return item;
  }

  /** @param {{ name: string, type: import("graphql").GraphQLInputType }} input @param {Node} node @param {string} id */
  function valueFieldOf({ name, type }, node, id) {
    const named = getNamedType(type);
    const isChoice = (isEnumType(named) && node.value.kind === "EnumValue") || node.value.kind === "BooleanValue";
    const label = { id, ariaLabel: `Value of ${name}` };
    const shown = node.value.kind === "StringValue" ? node.value.value : print(node.value);
    if (isChoice) {
      const names = isEnumType(named) ? named.getValues().map((value) => value.name) : ["true", "false"];
      const select = create(
        "select",
        label,
        ...names.map((value) => create("option", { selected: value === shown }, value)),
      );
      select.addEventListener("change", () => {
        node.value = isEnumType(named)
          ? { kind: "EnumValue", value: select.value }
          : { kind: "BooleanValue", value: select.value === "true" };
        write();
      });
      return select;
    }
    const field = create("input", { ...label, value: shown, autocomplete: "off" });
    field.addEventListener("change", () => {
      const value = inputValueOf(field.value, type);
      field.ariaInvalid = value ? null : "true";
      if (!value) return;
      node.value = value;
      write();
    });
    return field;
  }

  search.addEventListener("input", render);
  return {
    render,
    /** @param {Schema} next */
    use(next) {
      schema = next;
      byId("search-field").hidden = false;
      render();
    },
    /** @param {string} text */
    fail(text) {
      schema = null;
      byId("search-field").hidden = true;
      tree.replaceChildren(create("p", { className: "hint" }, text));
    },
  };
}

import { key, type Member, type Type } from "./type.ts";

/** The maximum length of a line. */
const WIDTH = 80;
/** The member of an empty object type, because `{}` would be any value except null. */
const NO_MEMBERS = "[_ in never]: never";

/**
 * Formats a type as Prettier does without semicolons: on one line if it fits, otherwise on several. `indent` is the
 * indentation of the line, `column` the position at which the type begins.
 *
 *   layOut(union(["number", "null"]), 0, 8)                               // number | null
 *   layOut(openObject([{ name: "user-id", type: "number" }]), 0, 8)       // {
 *                                                                         //   "user-id": number
 *                                                                         // }
 */
export function layOut(type: Type, indent: number, column: number): string {
  if (typeof type === "string") return type;
  const line = onOneLine(type);
  return line !== null && column + line.length <= WIDTH ? line : onLines(type, indent);
}

/** The members of an object, one per line. */
function layOutMembers(members: readonly Member[], indent: number): string {
  const margin = " ".repeat(indent);
  if (members.length === 0) return margin + NO_MEMBERS;
  return members.map((member) => margin + layOutMember(member, indent)).join("\n");
}

function layOutMember(member: Member, indent: number): string {
  const start = nameOf(member);
  const text = layOut(member[1], indent, indent + start.length + 1);
  return text.startsWith("\n") ? start + text : `${start} ${text}`;
}

const nameOf = ([name, , isOptional]: Member): string => `${key(name)}${isOptional ? "?" : ""}:`;

/** Null if a part must be on several lines. */
function onOneLine(type: Type): string | null {
  if (typeof type === "string") return type;
  switch (type.kind) {
    case "object": {
      const types = type.isOpen ? null : onOneLineEach(type.members.map(([, each]) => each));
      return types && `{ ${types.map((text, i) => `${nameOf(type.members[i]!)} ${text}`).join("; ")} }`;
    }
    case "union":
      return onOneLineEach(type.types)?.join(" | ") ?? null;
    case "array": {
      const element = onOneLine(type.element);
      return element && `${isUnion(type.element) ? `(${element})` : element}[]`;
    }
    case "tuple": {
      const elements = onOneLineEach(type.elements);
      return elements && `[${elements.join(", ")}]`;
    }
  }
}

function onOneLineEach(types: readonly Type[]): string[] | null {
  const lines = types.map(onOneLine);
  return lines.every((line) => line !== null) ? lines : null;
}

function onLines(type: Exclude<Type, string>, indent: number): string {
  const margin = " ".repeat(indent);
  const inner = " ".repeat(indent + 2);
  switch (type.kind) {
    case "object":
      return `{\n${layOutMembers(type.members, indent + 2)}\n${margin}}`;
    case "union": {
      const [first, ...others] = type.types;
      // `{ … } | null` continues on the line of the closing bracket.
      if (isObject(first!) && others.join() === "null") return `${onLines(first, indent)} | null`;
      return type.types.map((part) => `\n${inner}| ${layOut(part, indent + 4, indent + 4)}`).join("");
    }
    case "array": {
      const element = layOut(type.element, indent, WIDTH);
      return isUnion(type.element) ? `(${element}\n${margin})[]` : `${element}[]`;
    }
    case "tuple": {
      const elements = type.elements.map((part) => `${inner}${layOut(part, indent + 2, indent + 2)},\n`);
      return `[\n${elements.join("")}${margin}]`;
    }
  }
}

const isUnion = (type: Type): boolean => typeof type !== "string" && type.kind === "union";

const isObject = (type: Type): type is Extract<Type, { kind: "object" }> =>
  typeof type !== "string" && type.kind === "object";

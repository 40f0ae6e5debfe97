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
  return !line.includes("\n") && column + line.length <= WIDTH ? line : onLines(type, indent);
}

/** Has a line break if a part must be on several lines. */
function onOneLine(type: Type): string {
  if (typeof type === "string") return type;
  switch (type.kind) {
    case "object":
      if (type.isOpen) return "\n";
      return `{ ${type.members.map((member) => `${nameOf(member)} ${onOneLine(member[1])}`).join("; ")} }`;
    case "union":
      return type.types.map(onOneLine).join(" | ");
    case "array":
      return isKind(type.element, "union") ? `(${onOneLine(type.element)})[]` : `${onOneLine(type.element)}[]`;
    case "tuple":
      return `[${type.elements.map(onOneLine).join(", ")}]`;
  }
}

function onLines(type: Exclude<Type, string>, indent: number): string {
  const margin = " ".repeat(indent);
  const inner = " ".repeat(indent + 2);
  switch (type.kind) {
    case "object": {
      const members = type.members.map((member) => `${inner}${memberOnLines(member, indent + 2)}\n`);
      return `{\n${members.join("") || `${inner}${NO_MEMBERS}\n`}${margin}}`;
    }
    case "union": {
      const [first, ...others] = type.types;
      // `{ … } | null` continues on the line of the closing bracket.
      if (isKind(first!, "object") && others.join() === "null") return `${layOut(first!, indent, WIDTH)} | null`;
      return type.types.map((part) => `\n${inner}| ${layOut(part, indent + 4, indent + 4)}`).join("");
    }
    case "array": {
      const element = layOut(type.element, indent, WIDTH);
      return isKind(type.element, "union") ? `(${element}\n${margin})[]` : `${element}[]`;
    }
    case "tuple": {
      const elements = type.elements.map((part) => `${inner}${layOut(part, indent + 2, indent + 2)},\n`);
      return `[\n${elements.join("")}${margin}]`;
    }
  }
}

function memberOnLines(member: Member, indent: number): string {
  const start = nameOf(member);
  const text = layOut(member[1], indent, indent + start.length + 1);
  return text.startsWith("\n") ? start + text : `${start} ${text}`;
}

const nameOf = ([name, , isOptional]: Member): string => `${key(name)}${isOptional ? "?" : ""}:`;

const isKind = (type: Type, kind: Exclude<Type, string>["kind"]) => typeof type !== "string" && type.kind === kind;

/** `a, b="c, d"` → `["a", "b=\"c, d\""]`: splits at separators outside quotes and drops empty parts. */
export function splitList(text: string, separator: "," | ";"): string[] {
  const parts: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let i = 0; i < text.length; i++) {
    const character = text[i];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === "\\") i++;
    else if (!isQuoted && character === separator) {
      parts.push(text.slice(start, i));
      start = i + 1;
    }
  }
  parts.push(text.slice(start));
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

/** `Name = "a \"b\""` → `{ name: "name", value: "a \"b\"" }`; null for anything else. */
export function readPair(text: string): { readonly name: string; readonly value: string } | null {
  const equals = text.indexOf("=");
  if (equals === -1) return null;
  const name = text.slice(0, equals).trim().toLowerCase();
  const value = unquote(text.slice(equals + 1).trim());
  return TOKEN.test(name) && value !== null ? { name, value } : null;
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

function unquote(text: string): string | null {
  if (!text.startsWith('"')) return text.includes('"') ? null : text;
  const inner = /^"((?:[^"\\]|\\.)*)"$/.exec(text)?.[1];
  return inner === undefined ? null : inner.replace(/\\(.)/g, "$1");
}

/**
 * Reads pg_node_tree, the text format of parsed queries in Postgres. A node is `{KIND :field value :field value}`, a
 * list is `(a b)`. In names, these characters and spaces are escaped with a backslash.
 */

/** The fields of one node: `fieldsOf("{QUERY :a 1 :b ({X :c 2})}")` → `{ a: "1", b: "({X :c 2})" }` */
export function fieldsOf(node: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let label = node.indexOf(" :");
  while (label >= 0) {
    const start = node.indexOf(" ", label + 2) + 1;
    const end = isOpening(node.charCodeAt(start)) ? endOfBrackets(node, start) : endOfWord(node, start);
    fields.set(node.slice(label + 2, start - 1), node.slice(start, end));
    label = node.indexOf(" :", end);
  }
  return fields;
}

/** `itemsOf("({A} {B :c ({D})})")` → `["{A}", "{B :c ({D})}"]`; empty for `<>`, the null value. */
export function itemsOf(list: string): string[] {
  const items: string[] = [];
  for (let i = 1; i < list.length; i++) {
    if (!isOpening(list.charCodeAt(i))) continue;
    const end = endOfBrackets(list, i);
    items.push(list.slice(i, end));
    i = end - 1;
  }
  return items;
}

const BACKSLASH = 92;
const SPACE = 32;
/** `(` and `{` */
const isOpening = (code: number) => code === 40 || code === 123;
/** `)` and `}` */
const isClosing = (code: number) => code === 41 || code === 125;

function endOfWord(tree: string, start: number): number {
  let i = start;
  for (; i < tree.length; i++) {
    const code = tree.charCodeAt(i);
    if (code === BACKSLASH) i++;
    else if (code === SPACE || isClosing(code)) break;
  }
  return i;
}

/** The position after the bracket that closes the one at `start`. */
function endOfBrackets(tree: string, start: number): number {
  let depth = 0;
  for (let i = start; i < tree.length; i++) {
    const code = tree.charCodeAt(i);
    if (code === BACKSLASH) i++;
    else if (isOpening(code)) depth++;
    else if (isClosing(code) && --depth === 0) return i + 1;
  }
  return tree.length;
}

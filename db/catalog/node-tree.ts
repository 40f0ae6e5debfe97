/**
 * Reads pg_node_tree, the text in which Postgres stores parsed queries. A node is `{KIND :field value :field value}`, a list
 * is `(a b)`; in names these signs and spaces stand behind a backslash.
 */

/** The fields of this very node: `fieldsOf("{QUERY :a 1 :b ({X :c 2})}")` → `{ a: "1", b: "({X :c 2})" }` */
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

/** `itemsOf("({A} {B :c ({D})})")` → `["{A}", "{B :c ({D})}"]`; nothing for `<>`, which is no list. */
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
const isOpening = (sign: number) => sign === 40 || sign === 123;
/** `)` and `}` */
const isClosing = (sign: number) => sign === 41 || sign === 125;

function endOfWord(tree: string, start: number): number {
  let i = start;
  for (; i < tree.length; i++) {
    const sign = tree.charCodeAt(i);
    if (sign === BACKSLASH) i++;
    else if (sign === SPACE || isClosing(sign)) break;
  }
  return i;
}

/** Behind the bracket that closes the one at `start`. */
function endOfBrackets(tree: string, start: number): number {
  let depth = 0;
  for (let i = start; i < tree.length; i++) {
    const sign = tree.charCodeAt(i);
    if (sign === BACKSLASH) i++;
    else if (isOpening(sign)) depth++;
    else if (isClosing(sign) && --depth === 0) return i + 1;
  }
  return tree.length;
}

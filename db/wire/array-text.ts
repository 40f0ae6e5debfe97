/**
 * The text of a Postgres array. Every element is quoted, so that Postgres does not read it as NULL or as a bracket.
 *
 *   writeArray(["a", 'b"c', null, "null"])  // {"a","b\"c",null,"null"}
 *   writeArray([])                          // {}
 */
export const writeArray = (elements: readonly (string | null)[]): string => `{${elements.map(quote).join(",")}}`;

const quote = (element: string | null) => (element === null ? "null" : `"${escaped(element)}"`);

// Most elements have nothing to replace, and to find that out is faster.
const escaped = (text: string) => (/["\\]/.test(text) ? text.replace(/["\\]/g, "\\$&") : text);

const ELEMENT = /[{},]|"((?:[^"\\]|\\.)*)"|([^{},"]+)/gs;

/**
 * The elements of a Postgres array, in order, also of one with several dimensions.
 *
 *   elementsOf('{{a,"b\\"c"},{NULL,"NULL"}}')  // ["a", 'b"c', null, "NULL"]
 *   elementsOf("[0:1]={1,2}")                  // ["1", "2"]
 */
export function elementsOf(array: string): (string | null)[] {
  const elements: (string | null)[] = [];
  for (const [, quoted, plain] of array.slice(array.indexOf("{")).matchAll(ELEMENT)) {
    if (quoted !== undefined) elements.push(quoted.replace(/\\(.)/gs, "$1"));
    else if (plain !== undefined) elements.push(plain === "NULL" ? null : plain);
  }
  return elements;
}

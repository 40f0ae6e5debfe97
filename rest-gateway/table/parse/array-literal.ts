/**
 * An array of Postgres as text. Every element is quoted, so that none is taken for NULL or for a bracket.
 *
 *   writeArray(["a", 'b"c', "null"])  // {"a","b\"c","null"}
 *   writeArray([])                    // {}
 */
export const writeArray = (elements: readonly string[]): string => `{${elements.map(quote).join(",")}}`;

const quote = (element: string) => `"${element.replace(/["\\]/g, "\\$&")}"`;

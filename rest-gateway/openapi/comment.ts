/** A database comment as documentation shows it. */
export type Documentation = { readonly summary: string; readonly description: string };

/** `@behavior -select`: a smart tag, which is for the GraphQL interface and not for people. */
const SMART_TAG = /^@[A-Za-z]/;

/**
 * Splits a comment into its first line and the rest, without the smart tags at its beginning. Both are "" if it is empty.
 *
 *   documentationOf("Sends a letter.\n\nIt costs a stamp.")  // { summary: "Sends a letter.", description: "It costs a stamp." }
 */
export function documentationOf(comment: string | null): Documentation {
  const lines = plainText(comment).split("\n");
  return { summary: lines[0]!.trim(), description: lines.slice(1).join("\n").trim() };
}

/** The comment without smart tags. */
export function plainText(comment: string | null): string {
  const lines = (comment ?? "").trim().split(/\r?\n/);
  const first = lines.findIndex((line) => !SMART_TAG.test(line.trim()));
  return first === -1 ? "" : lines.slice(first).join("\n").trim();
}

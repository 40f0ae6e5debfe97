/** A database comment, split for documentation. */
export type Documentation = { readonly summary: string; readonly description: string };

/** `@behavior -select`: a smart tag, which only the GraphQL interface uses. */
const SMART_TAG = /^@[A-Za-z]/;

/**
 * Splits a comment, without the smart tags at its beginning, into its first line and the rest. Both are "" for an empty
 * comment.
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

/** A comment of the database as documentation tells it. */
export type Documentation = { readonly summary: string; readonly description: string };

/** `@behavior -select`: a smart tag, which is said to the GraphQL interface and not to people. */
const SMART_TAG = /^@[A-Za-z]/;

/**
 * The first line, and the rest: `"Sends a letter.\n\nIt costs a stamp."` → `{ summary: "Sends a letter.", description:
 * "It costs a stamp." }`. Smart tags at the beginning are left out; both are "" where there is nothing to tell.
 */
export function documentationOf(comment: string | null): Documentation {
  const lines = plainText(comment).split("\n");
  return { summary: lines[0]!.trim(), description: lines.slice(1).join("\n").trim() };
}

/** The comment as it is, without smart tags. */
export function plainText(comment: string | null): string {
  const lines = (comment ?? "").trim().split(/\r?\n/);
  const first = lines.findIndex((line) => !SMART_TAG.test(line.trim()));
  return first === -1 ? "" : lines.slice(first).join("\n").trim();
}

/** A Markdown table whose columns line up. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(3, title.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}

/** `**ours**: server.ts`, a line for each. */
export const list = (items: readonly { readonly name: string; readonly about: string }[]): string =>
  items.map(({ name, about }) => `- **${name}**: ${about}`).join("\n");

/** Rows below their names, in columns: what a person reads. */
export function inColumns(names: readonly string[], rows: readonly Readonly<Record<string, string>>[]): string {
  const lines = [names, ...rows.map((row) => names.map((name) => row[name] ?? ""))];
  const widths = names.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  const written = lines.map((line) => line.map((cell, i) => cell.padEnd(widths[i]!)).join("  "));
  return written.map((line) => `${line.trimEnd()}\n`).join("");
}

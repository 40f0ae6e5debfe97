/** Values as a line of CSV, as PostgreSQL writes them: null is empty, and an empty text is `""`. */
export const csvLine = (values: readonly (string | null)[]): string =>
  values.map((value) => (value === null ? "" : quoted(value))).join(",");

const quoted = (text: string) => (/[",\n\r]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);

/** The schema that Accept-Profile or Content-Profile names; null for the default one. Node gives each byte as a character. */
export function parseProfile(header: string | readonly string[] | undefined): string | null {
  const name = typeof header === "string" ? header : header?.[0];
  return name ? Buffer.from(name, "latin1").toString() : null;
}

/** The same the other way. */
export const writeProfile = (schema: string): string => Buffer.from(schema).toString("latin1");

import { readFileSync } from "node:fs";
import { type RestClient, useRest } from "../../support/rest-client.ts";

export const LIBRARY = readFileSync(new URL("library.sql", import.meta.url), "utf8");

/** A service with the schema of `library.sql` and with additional settings and SQL. */
export const useLibrary = (settings: Readonly<Record<string, string>> = {}, more = ""): RestClient =>
  useRest({ DB_SCHEMAS: "library", ...settings }, `${LIBRARY}${more}`);

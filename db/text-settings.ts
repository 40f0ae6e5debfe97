import type { Setting } from "./catalog/catalog.ts";

/**
 * How a session reads and writes text, and what its SQL means, whatever the server, the database and its roles set. DateStyle keeps the order
 * of day and month.
 */
export const TEXT_SETTINGS: readonly Setting[] = [
  ["array_nulls", "on"],
  ["bytea_output", "hex"],
  ["DateStyle", "ISO"],
  ["extra_float_digits", "1"],
  ["IntervalStyle", "postgres"],
  ["quote_all_identifiers", "off"],
  ["row_security", "on"],
  ["standard_conforming_strings", "on"],
];

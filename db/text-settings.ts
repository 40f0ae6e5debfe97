import type { Setting } from "./catalog/catalog.ts";

/**
 * How a session reads and writes text, and what its SQL means, whatever the server, the database and its roles set. DateStyle keeps the order
 * of day and month. Transactions set those that differ, because each costs a microsecond.
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

const WANTED = TEXT_SETTINGS.map(([name, value]) => `('${name}', '${value}')`).join(", ");

/** The settings above that a new session may have otherwise: by the server, the database or, for any login, its role. */
export const UNFIT = `
  select wanted.name
  from (values ${WANTED}) as wanted (name, value)
  join pg_settings as known on known.name = wanted.name
  where split_part(known.reset_val, ',', 1) <> wanted.value
    or exists (
      select from pg_db_role_setting as s, unnest(s.setconfig) as setting
      where lower(split_part(setting, '=', 1)) = lower(wanted.name)
    )
  order by wanted.name`;

import type { Column, Table } from "../existing/survey.ts";

const BOOLEAN = /^boolean$/;
const TIME = /^timestamp/;

const TEXT = /^(text|character varying)/;

/** Columns with the name of a user. */
export const NAME = /^((full|display|user|nick|real)_?)?name$|^handle$/i;

type Fact = {
  readonly name: RegExp;
  readonly type: RegExp;
  /** A condition of SQL that is never null. */
  readonly holds: (column: string) => string;
  /** Since when it holds, as an expression of SQL; null if it does not. */
  readonly since: (column: string) => string;
};

const sinceNow = (condition: (column: string) => string) => ({
  holds: condition,
  since: (column: string) => `case when ${condition(column)} then now() end`,
});
const isTrue = sinceNow((column) => `${column} is true`);
const isFalse = sinceNow((column) => `${column} is false`);
const isSet = { holds: (column: string) => `${column} is not null`, since: (column: string) => column };

/** What the names and types of columns say about users who may not sign in. */
const DISABLED: readonly Fact[] = [
  { name: /^(is_?)?(active|enabled)$/i, type: BOOLEAN, ...isFalse },
  { name: /^(is_?)?(disabled|deactivated|banned|blocked|suspended|deleted)$/i, type: BOOLEAN, ...isTrue },
  { name: /^(disabled|deactivated|banned|blocked|suspended|deleted)_?at$/i, type: TIME, ...isSet },
];
/** The same about e-mails of which a user has shown that they are theirs. */
const CONFIRMED: readonly Fact[] = [
  { name: /^(e?mail_?(confirmed|verified)|confirmed)_?at$/i, type: TIME, ...isSet },
  { name: /^(is_?)?e?mail_?(is_?)?(confirmed|verified)$/i, type: BOOLEAN, ...isTrue },
];

/** The column with the name that an account has too; null if there is none. */
export const nameIn = ({ columns }: Table): Column | null =>
  columns.find(({ name, base }) => NAME.test(name) && TEXT.test(base)) ?? null;

/** Since when a user may not sign in, for the row `row`; null if no column says it. */
export const disabledSince = (table: Table, row: string): string | null => sinceOf(found(table, DISABLED), row);

/** Since when the e-mail is confirmed, for the row `row`; null if no column says it. */
export const confirmedSince = (table: Table, row: string): string | null => sinceOf(found(table, CONFIRMED), row);

/** `old` → `(old.is_active is false)`: whether a user may not sign in, for a row; null if no column says it. */
export function disabledIn(table: Table): ((row: string) => string) | null {
  const facts = found(table, DISABLED);
  if (facts.length === 0) return null;
  return (row) => `(${facts.map(([{ holds }, column]) => holds(`${row}.${column.sql}`)).join(" or ")})`;
}

function sinceOf(facts: readonly (readonly [Fact, Column])[], row: string): string | null {
  const written = facts.map(([{ since }, column]) => since(`${row}.${column.sql}`));
  return written.length > 1 ? `coalesce(${written.join(", ")})` : (written[0] ?? null);
}

const found = ({ columns }: Table, facts: readonly Fact[]) =>
  columns.flatMap((column) =>
    facts
      .filter(({ name, type }) => name.test(column.name) && type.test(column.base))
      .map((fact) => [fact, column] as const),
  );

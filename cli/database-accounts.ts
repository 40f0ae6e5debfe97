import type { Plan } from "../db/existing/plan.ts";
import { NAME } from "../db/existing/sign-in.ts";
import type { Column } from "../db/existing/survey.ts";

const PASSWORD =
  /^(encrypted|hashed)_?passw(or)?d$|^passw(or)?d(_?(hash|digest|encrypted))?$|^(bcrypt|argon2(id?)?)(_?hash)?$/i;
const TEXT = /^(text|character varying)/;
const BOOLEAN = /^boolean$/;
const TIME = /^timestamp/;

/** What the names and types of columns say about accounts, as a condition or a time of SQL. */
const DISABLED = [
  {
    name: /^(is_?)?(active|enabled)$/i,
    type: BOOLEAN,
    write: (column: string) => `case when not ${column} then now() end`,
  },
  {
    name: /^(is_?)?(disabled|deactivated|banned|blocked|suspended|deleted)$/i,
    type: BOOLEAN,
    write: (column: string) => `case when ${column} then now() end`,
  },
  {
    name: /^(disabled|deactivated|banned|blocked|suspended|deleted)_?at$/i,
    type: TIME,
    write: (column: string) => column,
  },
];
const CONFIRMED = [
  { name: /^(e?mail_?(confirmed|verified)|confirmed)_?at$/i, type: TIME, write: (column: string) => column },
  {
    name: /^(is_?)?e?mail_?(is_?)?(confirmed|verified)$/i,
    type: BOOLEAN,
    write: (column: string) => `case when ${column} then now() end`,
  },
];

/** `db/accounts.sql`: accounts for the users who are there already. Null if there is no table of users. */
export function accountsFor({ choice: { users, migrate } }: Plan): string | null {
  if (users === null || migrate === "off") return null;
  const { table, key, email } = users;
  const sql = (name: string) => `u.${table.columns.find((column) => column.name === name)!.sql}`;
  const id = sql(key);
  const name = table.columns.find((column) => NAME.test(column.name) && TEXT.test(column.base));
  const passwords = table.columns.filter((column) => PASSWORD.test(column.name) && TEXT.test(column.base));
  const [disabled, confirmed] = [known(table.columns, DISABLED), known(table.columns, CONFIRMED)];
  const values = [
    id,
    name ? (name.isRequired ? sql(name.name) : `coalesce(${sql(name.name)}, ${sql(email)}::text)`) : sql(email),
    sql(email),
    ...(passwords.length === 1 ? [`${FORMATS}password_hash => ${sql(passwords[0]!.name)}`] : []),
    ...(disabled === null ? [] : [`${LATER}disabled_at => ${disabled}`]),
    ...(confirmed === null ? [] : [`email_confirmed_at => ${confirmed}`]),
  ];
  return `\
-- Accounts for the users in ${table.sql}. Read it${passwords.length === 1 ? "" : ", add password_hash => if there are hashes of passwords"}, then ${
    migrate === "on"
      ? "run:\n--   cp db/accounts.sql db/migrations/current.sql && npx content-service migrate commit accounts"
      : "put it into a migration of your tool."
  }
-- All parameters: node_modules/content-service/docs/bring-your-users.md, "From a table in the same database".
select auth.add_account(
  ${values.join(",\n  ")})
from ${table.sql} as u
where ${table.columns.find((column) => column.name === email)!.isRequired ? "" : `${sql(email)} is not null and `}not auth.has_account(${id});
`;
}

const FORMATS = "-- The formats are in the same page.\n  ";
const LATER =
  "-- A later change of the column does not change the account: the hook after_sign_in may refuse a sign-in.\n  ";

/** An expression of a time; null if no column says it. */
function known(columns: readonly Column[], facts: typeof DISABLED): string | null {
  const written = columns.flatMap((column) =>
    facts
      .filter(({ name, type }) => name.test(column.name) && type.test(column.base))
      .map(({ write }) => write(`u.${column.sql}`)),
  );
  return written.length > 1 ? `coalesce(${written.join(", ")})` : (written[0] ?? null);
}

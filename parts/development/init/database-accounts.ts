import { confirmedSince, disabledSince, nameIn } from "./account-columns.ts";
import type { Plan } from "./plan.ts";

/** The SQL that gives users accounts. */
export type Accounts = {
  /** `db/accounts.sql`: for the users who are there already. */
  readonly existing: string;
  /** `db/later-accounts.sql`: for those whom another application adds later. */
  readonly later: string;
};

/** Null if there is no table of users. */
export function accountsFor({ choice: { users, migrate } }: Plan): Accounts | null {
  if (users === null || migrate === "off") return null;
  const { table, key, email, password } = users;
  const sql = (name: string) => `u.${table.columns.find((column) => column.name === name)!.sql}`;
  const id = sql(key);
  const name = nameIn(table);
  const [disabled, confirmed] = [disabledSince(table, "u"), confirmedSince(table, "u")];
  const values = [
    id,
    name ? sql(name.name) : "null",
    sql(email),
    ...(password === null ? [] : [`${FORMATS}password_hash => ${sql(password.name)}`]),
    ...(disabled === null ? [] : [`disabled_at => ${disabled}`]),
    ...(confirmed === null ? [] : [`email_confirmed_at => ${confirmed}`]),
  ];
  const select = `auth.try_add_account(
  ${values.join(",\n  ")})
from ${table.sql} as u`;
  const hasEmail = table.columns.find((column) => column.name === email)!.isRequired ? "" : `${sql(email)} is not null`;
  const existing = `\
-- Accounts for the users in ${table.sql}. Read it${password !== null ? "" : ", add password_hash => if there are hashes of passwords"}, then ${
    migrate === "on"
      ? `run:
--   cp db/accounts.sql db/migrations/current.sql
--   npx content-service migrate commit accounts
-- If another application goes on adding users, run this between the two. db/${LATER} says what it does.
--   cp db/${LATER} db/schema/
--   echo '--!include ${LATER}' | tee -a db/schema/schema.sql >> db/migrations/current.sql`
      : `put it into a migration of your tool, and, if another\n-- application goes on adding users, db/${LATER}.`
  }
${FALLBACKS}-- All parameters: node_modules/content-service/docs/existing-database.md, "From a table in the same database".
select ${[select, hasEmail].filter((text) => text !== "").join("\nwhere ")};
`;
  const where = [`${id} = new.${id.slice("u.".length)}`, hasEmail].filter((text) => text !== "").join(" and ");
  return { existing, later: laterUsers(table.sql, `${select}\nwhere ${where}`, sql(email).slice("u.".length)) };
}

/** In `db/`. */
export const LATER = "later-accounts.sql";
const FORMATS = "-- The formats are in the same page.\n  ";
const FALLBACKS = `\
-- Users without a hash in one of the formats have no password, and set one at POST /auth/forgot. Users whose e-mail is malformed, or that
-- of another account, get no account: a warning has the id, and npx content-service doctor counts them.
`;

/** No migration includes it: whether another application adds users is for the developer to say. */
function laterUsers(table: string, select: string, email: string): string {
  const schema = table.slice(0, table.lastIndexOf("."));
  return `\
-- A user whom another application adds gets an account at the end of the transaction; a user who signs up here has one already. No value of the
-- row is an error: what db/accounts.sql says of users without a hash or a usable e-mail holds here too, and with another e-mail such a
-- user gets an account. db/accounts.sql says how to use this file; node_modules/content-service/docs/applications.md, "While
-- another application adds users", has more.
create or replace function ${schema}.add_account() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform ${select.replaceAll("\n", "\n  ")};
  return null;
end $$;
revoke execute on function ${schema}.add_account() from public;
drop trigger if exists add_account on ${table};
create constraint trigger add_account after insert or update of ${email} on ${table} deferrable initially deferred
  for each row execute function ${schema}.add_account();
`;
}

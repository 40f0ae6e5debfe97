import { confirmedSince, disabledSince } from "../db/existing/account-columns.ts";
import type { Plan } from "../db/existing/plan.ts";
import { NAME } from "../db/existing/sign-in.ts";

const PASSWORD =
  /^(encrypted|hashed)_?passw(or)?d$|^passw(or)?d(_?(hash|digest|encrypted))?$|^(bcrypt|argon2(id?)?)(_?hash)?$/i;
const TEXT = /^(text|character varying)/;

/** `db/accounts.sql`: accounts for the users who are there already. Null if there is no table of users. */
export function accountsFor({ choice: { users, migrate } }: Plan): string | null {
  if (users === null || migrate === "off") return null;
  const { table, key, email } = users;
  const sql = (name: string) => `u.${table.columns.find((column) => column.name === name)!.sql}`;
  const id = sql(key);
  const name = table.columns.find((column) => NAME.test(column.name) && TEXT.test(column.base));
  const passwords = table.columns.filter((column) => PASSWORD.test(column.name) && TEXT.test(column.base));
  const [disabled, confirmed] = [disabledSince(table, "u"), confirmedSince(table, "u")];
  const values = [
    id,
    name ? (name.isRequired ? sql(name.name) : `coalesce(${sql(name.name)}, ${sql(email)}::text)`) : sql(email),
    sql(email),
    ...(passwords.length === 1 ? [`${FORMATS}password_hash => ${sql(passwords[0]!.name)}`] : []),
    ...(disabled === null ? [] : [`disabled_at => ${disabled}`]),
    ...(confirmed === null ? [] : [`email_confirmed_at => ${confirmed}`]),
  ];
  const select = `auth.add_account(
  ${values.join(",\n  ")})
from ${table.sql} as u
where ${table.columns.find((column) => column.name === email)!.isRequired ? "" : `${sql(email)} is not null and `}not auth.has_account(${id})`;
  return `\
-- Accounts for the users in ${table.sql}. Read it${passwords.length === 1 ? "" : ", add password_hash => if there are hashes of passwords"}, then ${
    migrate === "on"
      ? "run:\n--   cp db/accounts.sql db/migrations/current.sql && npx content-service migrate commit accounts"
      : "put it into a migration of your tool."
  }
-- All parameters: node_modules/content-service/docs/bring-your-users.md, "From a table in the same database".
select ${select};

${laterUsers(table.sql, `${select}\n  and ${id} = new.${id.slice("u.".length)}`)}`;
}

const FORMATS = "-- The formats are in the same page.\n  ";

/** In comments, because an account that cannot be made refuses the row of the other application. */
function laterUsers(table: string, select: string): string {
  const schema = table.slice(0, table.lastIndexOf("."));
  return `\
-- Users whom another application adds later have no account. If there is one, remove the comment signs, for a trigger that makes them at the
-- end of the transaction; those who sign up here have one already. docs/hooks.md, "While another application adds users", has more.
${`\
create or replace function ${schema}.add_account() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform ${select.replaceAll("\n", "\n  ")};
  return null;
end $$;
revoke execute on function ${schema}.add_account() from public;
drop trigger if exists add_account on ${table};
create constraint trigger add_account after insert on ${table} deferrable initially deferred
  for each row execute function ${schema}.add_account();
`.replace(/^(?=.)/gm, "-- ")}`;
}

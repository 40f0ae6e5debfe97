import type { CallerRoles, Choice, Users } from "../existing/choice.ts";
import type { Column, Survey, Table } from "../existing/survey.ts";
import { isServiceRole } from "../existing/survey-queries.ts";
import { disabledIn, NAME, nameIn } from "./account-columns.ts";

/** The SQL with which users of an application sign in, and what it leaves to its developer. */
export type SignIn = {
  readonly text: string;
  /** Columns of new users whose values the service cannot know. With one, new users have no rows yet. */
  readonly unknown: readonly string[];
  /** The function that makes the row of a new user, as it is written in SQL; null if there is none, or `unknown` has columns. */
  readonly newUser: string | null;
  /** Roles, one of which may be that of signed-in users: no name says which. */
  readonly roles: readonly string[];
};

/** The schema file `sign-in.sql` of the application. Every statement may run twice. */
export function writeSignIn(survey: Survey, { users, roles, userId }: Choice): SignIn {
  const { text, ...known } = users === null ? NO_USERS : newUser(survey, users, userId, roles);
  const candidates = roles.signedIn === null ? roles.others.map(({ sql }) => sql) : [];
  return { text: `${text}\n${rightsOf(roles, candidates)}${aboutBypassing(survey)}`, ...known, roles: candidates };
}

/** No account has such a role, and a name like `shop_support` makes a reader look for it. */
function aboutBypassing({ roles, tables }: Survey): string {
  const used = new Set(tables.flatMap(({ grantees }) => grantees));
  const found = roles.filter(
    ({ name, canLogin, bypassesPolicies }) => used.has(name) && bypassesPolicies && !canLogin && !isServiceRole(name),
  );
  if (found.length === 0) return "";
  return `\n-- No account has a role that bypasses policies (${found.map(({ sql }) => sql).join(", ")}). How programs and people use one:
-- node_modules/content-service/docs/database-application.md, "Roles of your own, such as support".\n`;
}

function rightsOf({ signedIn, anonymous }: CallerRoles, candidates: readonly string[]): string {
  const known = [
    ...(signedIn ? [`grant ${signedIn.sql} to authenticated;\n`] : []),
    ...(anonymous ? [`grant ${anonymous.sql} to anon;\n`] : []),
  ];
  const offered = candidates.map((role) => `--   grant ${role} to authenticated;\n`);
  return [
    ...(known.length > 0 ? [RIGHTS, ...(signedIn === anonymous ? [SAME_RIGHTS] : []), ...known] : []),
    ...(known.length > 0 && signedIn === null ? ["\n"] : []),
    ...(offered.length > 0 ? [WHICH_ROLE, ...offered] : signedIn === null ? [NO_RIGHTS] : []),
  ].join("");
}

const NO_USERS: NewUser = {
  text: `\
-- Accounts have new ids, and no rows of yours. To keep rows for users, name their table here:
--   select auth.use_users('public.users');
`,
  unknown: [],
  newUser: null,
};
const RIGHTS = `\
-- Callers get the rights that these roles have. Their policies see the id of the user in auth.uid(), and in
-- current_setting('request.jwt.claims').
`;
const SAME_RIGHTS = `\
-- Signed-in users have those of anonymous callers, because no other role has rights. Give them a role of their own to give them more.
`;
const WHICH_ROLE = `\
-- Signed-in users may do nothing yet: which role has their rights? Every user who signs up gets them. Remove the comment signs before
-- one of these statements, or grant rights to authenticated itself. The policies of the role see the id of the user in auth.uid(), and
-- in current_setting('request.jwt.claims').
`;
const NO_RIGHTS = `\
-- Signed-in users have the role authenticated, which may do nothing yet, and others the role anon. For each table that they may use:
--   alter table public.notes enable row level security;
--   drop policy if exists "owners read their notes" on public.notes;
--   create policy "owners read their notes" on public.notes to authenticated using (owner_id = (select auth.uid()));
--   grant usage on schema public to authenticated;
--   grant select on public.notes to authenticated;
`;

/** The service keeps passwords itself, so these columns get a value that no password has. */
const PASSWORD = /passw|pwd|bcrypt|argon|hash|digest/i;

type NewUser = Omit<SignIn, "roles">;

function newUser(survey: Survey, users: Users, userId: string, roles: CallerRoles): NewUser {
  const { table } = users;
  const use = (point: string, signature: string) => useHook(point, signature, roles);
  const columns = table.columns.filter(
    (column) => column.name === users.email || NAME.test(column.name) || (column.isRequired && !column.hasDefault),
  );
  const values = columns.map((column) => ({ column, value: valueFor(column, users) }));
  const unknown = values.filter(({ value }) => value === null).map(({ column }) => column.name);
  const taken = survey.tables.some(({ schema, name }) => schema === table.schema && name === "new_user");
  const schema = table.sql.slice(0, table.sql.lastIndexOf("."));
  const name = `${schema}.${taken ? "new_account_user" : "new_user"}`;
  const path = [...new Set([schema, ...survey.extensions.map((extension) => extension.schema)])].join(", ");
  // The value that a client sends is no answer to what role or tenant a user has.
  const written = values.map(({ column, value }) => value ?? `-- ${column.name}\n    …::${column.type}`);
  const text = `\
-- Accounts belong to rows of ${table.sql}, and are deleted with them.
select auth.use_users('${table.sql.replaceAll("'", "''")}');

-- Inserts the row of a new user, and returns its id. The fields are those of the sign-up.
create or replace function ${name}(fields jsonb) returns ${userId}
language sql volatile security definer set search_path = ${path}, pg_temp as $$
  insert into ${table.sql} (${columns.map((column) => column.sql).join(", ")})
  values (
    ${written.join(",\n    ")}
  )
  returning ${columnOf(table, users.key)}
$$;
grant usage on schema ${schema} to auth_owner;
${use("new_user", `${name}(jsonb)`)}
-- The e-mail of the table follows that of the account, which users change at POST /auth/email.
create or replace function ${schema}.new_email(user_id ${userId}, email text) returns void
language sql volatile security definer set search_path = ${path}, pg_temp as $$
  update ${table.sql} as u
  set ${columnOf(table, users.email)} = new_email.email
  where u.${columnOf(table, users.key)} = new_email.user_id
$$;
${use("new_email", `${schema}.new_email(${userId}, text)`)}${replaceCredentials(users)}${followName(users)}${followDisabled(users)}`;
  if (unknown.length === 0) return { text, unknown, newUser: name };
  const question = `-- New users have no rows yet: which values do they get for ${unknown.join(", ")}? Write them in place of each …, and remove the
-- comment signs before the statements. fields ->> '${unknown[0]}' is what the client sends at the sign-up.\n`;
  return { text: question + text.replace(/^(?!--|$)/gm, "--   "), unknown, newUser: null };
}

/** Users sign in here with the e-mail and the password that another application has given them. */
function replaceCredentials({ table, key, email, password }: Users): string {
  const trigger = (name: string, column: string) => `\
create or replace trigger ${name} after update on ${table.sql}
  for each row when (new.${columnOf(table, column)} is distinct from old.${columnOf(table, column)})
  execute function auth_api.${name}(${literal(key)}, ${literal(column)});
`;
  const emails = `
-- The account follows the e-mail that another application changes, and not what requests to this service change.
${trigger("replace_email", email)}`;
  if (password === null) return emails;
  return `${emails}-- It also follows a password, which ends all sign-ins here. A password that users change or reset here stays the previous one in the
-- table: one that has leaked must be changed there.
${trigger("replace_password", password.name)}`;
}

/** The name that e-mails greet a user with follows that in the table, also when another application changes it. */
function followName({ table, key }: Users): string {
  const name = nameIn(table);
  if (name === null) return "";
  return `
-- The name of the account is that of the table.
create or replace trigger follow_name after update on ${table.sql}
  for each row when (new.${name.sql} is distinct from old.${name.sql})
  execute function auth_api.follow_name(${literal(key)}, ${literal(name.name)});
`;
}

/** What another application says of a user holds here too, at once. */
function followDisabled({ table, key }: Users): string {
  const isDisabled = disabledIn(table);
  if (isDisabled === null) return "";
  const id = literal(key);
  const trigger = (name: string, before: string, after: string) => `\
create or replace trigger ${name} after update on ${table.sql}
  for each row when (${isDisabled(after)} and not ${isDisabled(before)}) execute function auth_api.${name}(${id});
`;
  return `
-- Users whom the table deactivates are signed out, and may not sign in until it activates them again.
${trigger("disable_account", "old", "new")}${trigger("enable_account", "new", "old")}`;
}

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

const columnOf = ({ columns }: Table, name: string): string => columns.find((column) => column.name === name)!.sql;

/** Lets the service, and no caller, call a function of the application: default privileges may let every role do so. */
function useHook(point: string, signature: string, { anonymous, signedIn, others }: CallerRoles): string {
  const own = [anonymous, signedIn, ...others].filter((role) => role !== null).map(({ sql }) => sql);
  const callers = [...new Set(["public", "anon", "authenticated", ...own])];
  return `\
revoke execute on function ${signature} from ${callers.join(", ")};
grant execute on function ${signature} to auth_owner;
select auth.use_hook('${point}', '${signature.replaceAll("'", "''")}');
`;
}

/** An expression of `fields`; null if the service cannot know the value. */
function valueFor({ name, base, type }: Column, users: Users): string | null {
  if (name === users.email) return "fields ->> 'email'";
  if (name === users.key) return KEYS[users.id] ?? null;
  if (PASSWORD.test(name)) return base === "bytea" ? "''" : "'no password'";
  if (!TEXTS.test(base)) return null;
  // A short column takes what fits.
  if (NAME.test(name)) return /\(\d+\)$/.test(type) ? `(fields ->> 'name')::${type}` : "fields ->> 'name'";
  return null;
}

const TEXTS = /^(text|character varying|character|([\w".]+\.)?citext)/;
const KEYS: Readonly<Record<string, string>> = {
  uuid: "gen_random_uuid()",
  text: "coalesce(fields ->> 'username', gen_random_uuid()::text)",
};

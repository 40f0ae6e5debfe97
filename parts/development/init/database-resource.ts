import type { Choice } from "../existing/choice.ts";
import type { Column, Role, Table } from "../existing/survey.ts";
import { NAME } from "./account-columns.ts";
import type { Plan } from "./plan.ts";

/** A file in `resources/`, and the variable that it exports. */
export type ResourceFile = {
  readonly name: string;
  readonly variable: string;
  readonly text: string;
  /** Whether users register with it. */
  readonly hasAccount: boolean;
  /** Whether the role of signed-in users may read all of its fields. */
  readonly isReadable: boolean;
};

/** Paths of the service. */
const TAKEN =
  "admin api auth config console docs graphiql graphql health live metrics openapi ready realtime rest tasks".split(
    " ",
  );
const KEYS = ["uuid", "bigint", "integer"];
/** Columns that a first resource leaves out, although callers may read them. */
const SECRET = /passw|secret|token|hash|bcrypt|private|_key$/i;

/** The users, if they can register, and as an example a table that callers may read. */
export function resourcesFor(plan: Plan): readonly ResourceFile[] {
  const users = registration(plan);
  const table = exampleOf(plan);
  return [...(users ? [users] : []), ...(table && table !== plan.choice.users?.table ? [resourceOf(plan, table)] : [])];
}

/** With this resource users register, if SIGNUP is open, and administrators add users: the service passes its fields to the function `new_user`. */
function registration(plan: Plan): ResourceFile | null {
  const { choice, signIn } = plan;
  const { users, migrate } = choice;
  const canRegister = migrate !== "off" && users !== null && signIn.unknown.length === 0;
  if (!canRegister || users.id === "text") return null;
  const { table, key, email } = users;
  // The fields of a sign-up are name and email, whatever the columns are called.
  const name = table.columns.find((column) => NAME.test(column.name))?.name;
  const named = [["email", optionsOf("email", email)], ...(name ? [["name", optionsOf("name", name)]] : [])] as const;
  const others = exampleColumns(table, choice).filter(
    (column) => ![key, email, name, "email", "name"].includes(column.name),
  );
  const fields = [[key, "{}"], ...named, ...others.map((column) => [column.name, "{}"])] as [string, string][];
  const about =
    "Users. `POST /users` of administrators, and with `SIGNUP=open` `POST /auth/register`, take the fields that are written, and a password.";
  const readable = readableIn(table, choice.roles.signedIn).map((column) => column.name);
  const isReadable = [key, email, ...(name ? [name] : [])].every((column) => readable.includes(column));
  return write(table, { fields, about, hasAccount: true, isReadable });
}

const optionsOf = (field: string, column: string): string =>
  `{ ${field === column ? "" : `column: "${column}", `}write: "on create", isRequired: true }`;

/** A table with one key column that a caller may read, at best one that refers to users. */
function exampleOf({ choice, survey }: Plan): Table | null {
  const { users, schemas } = choice;
  const isFit = (table: Table) => {
    const [first, ...more] = table.key;
    const key = exampleColumns(table, choice).find(({ name }) => name === first);
    return table.isTable && key !== undefined && more.length === 0 && KEYS.includes(key.base) && isNamed(table);
  };
  const fit = survey.tables.filter((table) => schemas.includes(table.schema) && isFit(table));
  return fit.find(({ references }) => references.some(({ table }) => table === users?.table.sql)) ?? fit[0] ?? null;
}

const isNamed = ({ name }: Table): boolean => /^[a-z][a-z0-9_]*$/.test(name) && !TAKEN.includes(name);

/** The columns that signed-in users may read, or anonymous callers if no role of users is known, without secrets. */
const exampleColumns = (table: Table, { roles }: Choice): readonly Column[] =>
  readableIn(table, roles.signedIn ?? roles.anonymous).filter(({ name }) => !SECRET.test(name));

function readableIn({ columns }: Table, role: Role | null): readonly Column[] {
  if (role === null) return [];
  const roles = [role.name, ...(role.inherits ? role.memberOf : []), "public"];
  return columns.filter(({ readers }) => readers.some((reader) => roles.includes(reader)));
}

function resourceOf({ choice }: Plan, table: Table): ResourceFile {
  const [key] = table.key;
  const readable = exampleColumns(table, choice).filter(({ name }) => name !== key);
  const fields = [key!, ...readable.map(({ name }) => name)].map((name) => [name, "{}"] as const);
  const about = `Rows of ${table.schema}.${table.name}.`;
  return write(table, { fields, about, hasAccount: false, isReadable: choice.roles.signedIn !== null });
}

type Written = Pick<ResourceFile, "hasAccount" | "isReadable"> & {
  readonly fields: readonly (readonly [name: string, options: string])[];
  readonly about: string;
};

function write(table: Table, { fields, about, hasAccount, isReadable }: Written): ResourceFile {
  const name = isNamed(table) ? table.name : "users";
  const variable = name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
  const lines = fields.map(
    ([field, options]) => `    ${/^[a-z_]\w*$/i.test(field) ? field : JSON.stringify(field)}: ${options},\n`,
  );
  const text = `\
import { defineResource } from "content-service";

/** \`GET /${name}\`, with the policies of the table. \`write: "always"\` lets callers change a field. */
export const ${variable} = defineResource({
  name: "${name}",
  singular: "${singularOf(name)}",
  about: ${JSON.stringify(about)},
  table: "${table.schema}.${table.name}",
  fields: {
${lines.join("")}  },
${hasAccount ? "  hasAccount: true,\n" : ""}});
`;
  return { name, variable, text, hasAccount, isReadable };
}

/** `categories` → `category` */
const singularOf = (name: string): string =>
  name.endsWith("ies") ? name.replace(/ies$/, "y") : name.replace(/(?<=(s|x|ch|sh))es$|(?<!s)s$/, "");

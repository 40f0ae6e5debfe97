import type { Table } from "../existing/survey.ts";
import type { Plan } from "./plan.ts";

/** The users in `db/seed.sql`. */
const SEEDED = ["ada", "bob"];

/** `db/seed.sql`: two users for the tests. Null if there are no rows for users, or new ones need an answer of the developer. */
export function seedFor({ choice, signIn, survey }: Plan): string | null {
  const { users, migrate, userId } = choice;
  const { newUser } = signIn;
  if (migrate === "off" || users === null || newUser === null) return null;
  const made = SEEDED.map((name) => {
    const fields = JSON.stringify({ name: titled(name), email: emailOf(name), username: name });
    return `  ${name} constant ${userId} := ${newUser}('${fields}');\n`;
  });
  const accounts = SEEDED.map(
    (name) => `  perform auth.add_account(${name}, '${titled(name)}', '${emailOf(name)}', '${name}');\n`,
  );
  const isOwned = ({ references }: Table) => references.some(({ table }) => table === users.table.sql);
  const owned = inOrder(survey.tables).filter(isOwned);
  return `\
-- Rows for the tests, inserted as the owner. With rows of your tables that belong to ada and bob, test/access.md says which of them each
-- caller may see and change.
do $$
declare
${made.join("")}begin
${accounts.join("")}${owned.map((table) => exampleOf(table, users.table.sql)).join("")}end $$;
`;
}

/** Tables after those that they refer to, as far as there is such an order: their rows can be inserted in it. */
function inOrder(tables: readonly Table[]): readonly Table[] {
  const ordered = new Set<Table>();
  const add = (table: Table, path: readonly Table[]) => {
    if (ordered.has(table) || path.includes(table)) return;
    for (const { table: name } of table.references)
      for (const other of tables) if (other.sql === name) add(other, [...path, table]);
    ordered.add(table);
  };
  for (const table of tables) add(table, []);
  return [...ordered];
}

/** `-- insert into public.notes (owner_id, text) values (ada, …), (bob, …);` */
function exampleOf(table: Table, users: string): string {
  const owner = table.references.find((each) => each.table === users)!.column;
  const columns = table.columns.filter(
    ({ name, isRequired, hasDefault }) => name === owner || (isRequired && !hasDefault),
  );
  const names = columns.map(({ sql }) => sql).join(", ");
  const rows = SEEDED.map((user) => `(${columns.map(({ name }) => (name === owner ? user : "…")).join(", ")})`);
  return `  -- insert into ${table.sql} (${names}) values ${rows.join(", ")};\n`;
}

const titled = (name: string): string => name[0]!.toUpperCase() + name.slice(1);
const emailOf = (name: string): string => `${name}@example.com`;

import type pg from "pg";

type NewUser = { readonly name: string; readonly email: string; readonly age?: number | null | undefined };
type Changes = { readonly [Field in keyof NewUser]?: NewUser[Field] | undefined };

const COLUMNS = "id, name, email, age, created_at, updated_at";

/** The statements of the hand-written servers, each prepared under its name. */
export const STATEMENTS = {
  read: (id: string): pg.QueryConfig => ({
    name: "read",
    text: `select ${COLUMNS} from users where id = $1`,
    values: [id],
  }),

  // Limits are literal: Postgres expects `limit $1` to be a tenth of the table, and would make a new plan each time.
  list: (skip: number, limit: number): pg.QueryConfig => ({
    name: `list ${skip} ${limit}`,
    text: `
      select (select count(*) from users)::int as total,
        coalesce(json_agg(page), '[]') as users
      from (select ${COLUMNS} from users order by id limit ${limit} offset ${skip}) as page`,
    values: [],
  }),

  create: ({ name, email, age = null }: NewUser): pg.QueryConfig => ({
    name: "create",
    text: `insert into users (name, email, age) values ($1, $2, $3) returning ${COLUMNS}`,
    values: [name, email, age],
  }),

  /** The names of the fields are those of the schema that the body was checked with. */
  update: (id: string, changes: Changes): pg.QueryConfig => {
    const fields = Object.keys(changes);
    const settings = fields.map((field, i) => `${field} = $${i + 2}`);
    return {
      name: `update ${fields.join(" ")}`,
      text: `update users set ${settings.join(", ")} where id = $1 returning ${COLUMNS}`,
      values: [id, ...Object.values(changes)],
    };
  },
};

import express, { type ErrorRequestHandler, type Express, type Response } from "express";
import pg from "pg";
import { z } from "zod";
import { bearerVerifier, type TokenCaller } from "../../peer-settings.ts";

/** Runs a prepared statement for a caller. */
export type Run = (caller: TokenCaller, statement: pg.QueryConfig) => Promise<pg.QueryResult>;

/** Throws Refusal if the caller may not write, where no policy of the database checks it. */
export type Allow = (caller: TokenCaller, userId: string) => void;

export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const NewUser = z.object({
  name: z.string().min(1).max(200),
  email: z.email().max(254),
  age: z.int().min(0).max(150).nullish(),
});
const Changes = NewUser.partial();
const Id = z.string().regex(/^\d{1,18}$/);
const Page = z.object({
  skip: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(0).max(100).default(10),
});

// Ids are numbers in the answers.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);

/** `/users` as one would write it with Express: a handler for each operation, a statement for each need. */
export function usersApp(secret: string, run: Run, allow: Allow): Express {
  const verify = bearerVerifier(secret);
  const app = express();
  app.disable("x-powered-by");
  app.use((request, response, next) => {
    response.locals.caller = verify(request.headers.authorization);
    next();
  });
  app.use(express.json());

  app.get("/users", async (request, response) => {
    const { skip, limit } = Page.parse(request.query);
    const { rows } = await run(callerOf(response), STATEMENTS.list(skip, limit));
    const { total, users } = rows[0];
    response.set("X-Total-Count", String(total)).json(users);
  });

  app.get("/users/:id", async (request, response) => {
    const { rows } = await run(callerOf(response), STATEMENTS.read(Id.parse(request.params.id)));
    response.json(found(rows));
  });

  app.post("/users", async (request, response) => {
    const { rows } = await run(callerOf(response), STATEMENTS.create(NewUser.parse(request.body)));
    response.status(201).location(`/users/${rows[0].id}`).json(rows[0]);
  });

  app.patch("/users/:id", async (request, response) => {
    const caller = callerOf(response);
    const id = Id.parse(request.params.id);
    allow(caller, id);
    const { rows } = await run(caller, STATEMENTS.update(id, Changes.parse(request.body)));
    response.json(found(rows));
  });

  app.use(answerError);
  return app;
}

const callerOf = ({ locals }: Response): TokenCaller => locals.caller;

function found<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Refusal(404, "no such user");
  return row;
}

const answerError: ErrorRequestHandler = (error, _request, response, _next) => {
  response.status(statusOf(error)).json({ error: { message: (error as Error).message } });
};

function statusOf(error: unknown): number {
  if (error instanceof z.ZodError) return 400;
  if (error instanceof pg.DatabaseError && error.code === "23505") return 409;
  return error instanceof Refusal ? error.status : 500;
}

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

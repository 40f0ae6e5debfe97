import { problemOf } from "../../../db/errors.ts";
import type { StoredRequest, TaskHandler } from "../../../rest-gateway/tasks/task-handler.ts";

/** A step of SQL; `$1` in it is the task's id. */
export type SqlStep = { readonly sql: string };

/** A request whose body is the SQL of its steps. */
export const requestOf = (steps: readonly SqlStep[]): StoredRequest => ({
  method: "POST",
  url: "/sql",
  headers: {},
  body: JSON.stringify(steps),
});

/** Runs the SQL of the request with the caller's identity. */
export const sqlTaskHandler: TaskHandler<readonly SqlStep[]> = {
  plan: ({ body }) => JSON.parse(body!),
  write: (steps, { id, caller }) => ({
    identity: { caller, request: { method: "POST", path: "/sql", headers: "{}", cookies: "{}" } },
    statements: steps.map(({ sql }) => ({ text: sql, values: sql.includes("$1") ? [id] : [] })),
  }),
  formatError: (error) => {
    const problem = problemOf(error, { constraintMessages: new Map(), anonymous: false, refused: null });
    return problem && { status: problem.status, body: { code: problem.code, message: problem.message } };
  },
};

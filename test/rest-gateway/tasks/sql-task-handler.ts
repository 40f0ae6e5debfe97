import { problemOf } from "../../../db/errors.ts";
import type { KeptRequest, Performer, Step } from "../../../rest-gateway/tasks/task-handler.ts";

/** A step of SQL; `$1` in it is the task's id. */
export type SqlStep = { readonly sql: string; readonly rows?: number };

/** A request that is nothing but SQL. */
export const requestOf = (steps: readonly SqlStep[]): KeptRequest => ({
  method: "POST",
  url: "/sql",
  headers: {},
  body: JSON.stringify(steps),
});

/** Does the SQL of the request, as the caller. */
export const sqlPerformer: Performer = {
  work: ({ id, caller, request }) => ({
    identity: { caller, request: { method: "POST", path: "/sql", headers: "{}", cookies: "{}" } },
    steps: JSON.parse(request.body!).map(
      ({ sql, rows = 0 }: SqlStep): Step => ({
        statement: { text: sql, values: sql.includes("$1") ? [id] : [] },
        rows,
      }),
    ),
  }),
  problemOf: (error) => {
    const problem = problemOf(error, { constraintMessages: new Map(), anonymous: false, expired: false });
    return problem && { status: problem.status, body: { code: problem.code, message: problem.message } };
  },
};

/** A task as the database tells it; times are ISO 8601. */
export type TaskFacts = {
  readonly taskId: string;
  readonly status: "pending" | "running" | "succeeded" | "failed" | "cancelled";
  readonly progress: { readonly done: number /** Null when it is not known. */; readonly total: number | null };
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly estimate: { readonly seconds: number };
  /** `{ status, …the problem's body }` of a task that has failed. */
  readonly error: object | null;
};

export const hasEnded = ({ finishedAt }: TaskFacts): boolean => finishedAt !== null;

/** `/api/v2/tasks/0191…` */
export const addressOf = ({ taskId }: TaskFacts, prefix: string): string => `${prefix}/tasks/${taskId}`;

/** `{"taskId":"…","status":"pending","estimate":{"seconds":2},"_links":…}` */
export function acceptedBody(facts: TaskFacts, prefix: string): Buffer {
  const { taskId, status, estimate } = facts;
  return Buffer.from(JSON.stringify({ taskId, status, estimate, _links: linksOf(facts, prefix) }));
}

/** A task without its result; `error` is there when it has failed alone. */
export function taskOf(facts: TaskFacts, prefix: string) {
  const { error, ...task } = facts;
  return { ...task, ...(task.status === "failed" && { error }), _links: linksOf(facts, prefix) };
}

/** `result` is the JSON that the task has given, null for nothing: its text is passed on without being read. */
export function taskBody(facts: TaskFacts, result: Buffer | null, prefix: string): Buffer {
  const task = taskOf(facts, prefix);
  if (facts.status !== "succeeded") return Buffer.from(JSON.stringify(task));
  const { _links, ...before } = task;
  const start = Buffer.from(`${JSON.stringify(before).slice(0, -1)},"result":`);
  return Buffer.concat([start, result ?? NULL, Buffer.from(`,"_links":${JSON.stringify(_links)}}`)]);
}

const NULL = Buffer.from("null");

function linksOf(facts: TaskFacts, prefix: string) {
  const href = addressOf(facts, prefix);
  const self = { href };
  return hasEnded(facts) ? { self } : { self, cancel: { href: `${href}/cancel`, method: "POST" } };
}

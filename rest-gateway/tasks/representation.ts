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

/** `parts` are the JSON that the task has given: its text is passed on without being read. */
export function taskBody(facts: TaskFacts, parts: readonly Buffer[], prefix: string): Buffer {
  const task = taskOf(facts, prefix);
  if (facts.status !== "succeeded") return Buffer.from(JSON.stringify(task));
  const { _links, ...before } = task;
  const start = Buffer.from(`${JSON.stringify(before).slice(0, -1)},"result":`);
  return Buffer.concat([start, ...resultOf(parts), Buffer.from(`,"_links":${JSON.stringify(_links)}}`)]);
}

/** Several parts are arrays, and become one; none is null. */
function resultOf(parts: readonly Buffer[]): readonly Buffer[] {
  if (parts.length < 2) return parts.length === 0 ? [Buffer.from("null")] : parts;
  const elements = parts.map(elementsOf).filter(({ length }) => length > 0);
  const comma = Buffer.from(",");
  return [Buffer.from("["), ...elements.flatMap((some, i) => (i === 0 ? [some] : [comma, some])), Buffer.from("]")];
}

/** ` [1, 2] ` → `1, 2` */
function elementsOf(array: Buffer): Buffer {
  const text = trimmed(array);
  return trimmed(text.subarray(1, -1));
}

function trimmed(json: Buffer): Buffer {
  let start = 0;
  let end = json.length;
  while (start < end && BLANKS.has(json[start]!)) start++;
  while (start < end && BLANKS.has(json[end - 1]!)) end--;
  return json.subarray(start, end);
}

const BLANKS = new Set(Buffer.from(" \t\r\n"));

function linksOf(facts: TaskFacts, prefix: string) {
  const href = addressOf(facts, prefix);
  const self = { href };
  return hasEnded(facts) ? { self } : { self, cancel: { href: `${href}/cancel`, method: "POST" } };
}

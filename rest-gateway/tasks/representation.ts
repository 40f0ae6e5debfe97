import type { TaskState } from "./task-repository.ts";

export const hasEnded = ({ finishedAt }: TaskState): boolean => finishedAt !== null;

/** `/api/v2/tasks/0191…` */
export const taskUrl = ({ taskId }: TaskState, prefix: string): string => `${prefix}/tasks/${taskId}`;

/** `{"taskId":"…","status":"pending","estimate":{"seconds":2},"_links":…}` */
export function acceptedBody(state: TaskState, prefix: string): Buffer {
  const { taskId, status, estimate } = state;
  return Buffer.from(JSON.stringify({ taskId, status, estimate, _links: linksOf(state, prefix) }));
}

/** The JSON of a task in a list. Only a failed task has `error`. */
export function taskWithoutResult(state: TaskState, prefix: string) {
  const { error, ...task } = state;
  return { ...task, ...(task.status === "failed" && { error }), _links: linksOf(state, prefix) };
}

/** The body of `GET /tasks/{id}`. `parts` is the JSON of the result, which is not parsed. */
export function taskBody(state: TaskState, parts: readonly Buffer[], prefix: string): Buffer {
  const task = taskWithoutResult(state, prefix);
  if (state.status !== "succeeded") return Buffer.from(JSON.stringify(task));
  const { _links, ...before } = task;
  const start = Buffer.from(`${JSON.stringify(before).slice(0, -1)},"result":`);
  return Buffer.concat([start, ...resultOf(parts), Buffer.from(`,"_links":${JSON.stringify(_links)}}`)]);
}

/** Joins several parts, which are arrays, into one array. A single part may be any JSON; without parts, the result is null. */
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

function linksOf(state: TaskState, prefix: string) {
  const href = taskUrl(state, prefix);
  const self = { href };
  return hasEnded(state) ? { self } : { self, cancel: { href: `${href}/cancel`, method: "POST" } };
}

import type { Identity } from "../../db/transaction/identity.ts";
import { problem } from "../../problems/problem.ts";
import { contentTag } from "../../rest-gateway/conventions/conditional.ts";
import {
  answerOf,
  type Endpoint,
  type EndpointRequest,
  type RestAnswer,
} from "../../rest-gateway/conventions/endpoint.ts";
import { answerList, parsePaging } from "../../rest-gateway/conventions/paging.ts";
import { isUuid } from "../../rest-gateway/conventions/parameters.ts";
import { badParameter, invalidId } from "../../rest-gateway/conventions/problem.ts";
import { PAGE_SIZE, STATUSES } from "../../rest-gateway/tasks/tasks.ts";
import { taskHasEnded } from "./problem.ts";
import type { CallerTaskRepository, TaskState } from "./repository.ts";

const LIST_PARAMETERS = ["page", "limit", "status"];
/** Seconds until a client should request the state of an unfinished task again. */
const RETRY_SECONDS = "1";

/** `/tasks`, `/tasks/{id}` and `/tasks/{id}/cancel`. */
export class TaskEndpoint implements Endpoint {
  readonly #repository: CallerTaskRepository;
  readonly #anonymousRole: string;

  constructor(repository: CallerTaskRepository, anonymousRole: string) {
    this.#repository = repository;
    this.#anonymousRole = anonymousRole;
  }

  methodsAt([, id, action, ...more]: readonly string[]): readonly string[] | null {
    if (more.length > 0 || id === "") return null;
    if (action === undefined) return ["GET", "HEAD", "OPTIONS"];
    return action === "cancel" ? ["POST", "OPTIONS"] : null;
  }

  async answer(endpointRequest: EndpointRequest): Promise<RestAnswer> {
    const { segments, parameters, caller, request, prefix } = endpointRequest;
    const [, id, action] = segments;
    const identity = { caller, request };
    if (id === undefined) return this.#list(endpointRequest, identity);
    parameters.allowOnly([]);
    if (!isUuid(id)) throw invalidId(id, "task id: it must be a UUID", { field: "taskId", message: "must be a UUID" });
    if (action === undefined) return this.#read(id, identity, prefix);
    if (action === "cancel") return this.#cancel(id, identity, prefix);
    throw problem("no such path");
  }

  async #list({ prefix, parameters }: EndpointRequest, identity: Identity): Promise<RestAnswer> {
    parameters.allowOnly(LIST_PARAMETERS);
    const status = parameters.get("status");
    if (status !== null && !STATUSES.includes(status)) {
      throw badParameter("status", `status must be one of ${STATUSES.join(", ")}`);
    }
    const page = parsePaging(parameters, {
      usual: "envelope",
      pageSize: PAGE_SIZE,
      hasVariants: false,
      wrapsSkip: false,
    });
    if (page.form !== "envelope") throw problem("no such path");
    if (identity.caller.role === this.#anonymousRole) throw problem("login required");

    const { tasks, total } = await this.#repository.list(status, page.limit, page.offset, identity);
    const records = Buffer.from(JSON.stringify(tasks.map((state) => taskWithoutResult(state, prefix))));
    return answerList(page, records, total, `${prefix}/tasks`, parameters);
  }

  async #read(id: string, identity: Identity, prefix: string): Promise<RestAnswer> {
    const found = await this.#repository.find(id, identity);
    if (!found) throw problem("no such task");
    return answerTask(found.state, found.parts, prefix);
  }

  async #cancel(id: string, identity: Identity, prefix: string): Promise<RestAnswer> {
    const found = await this.#repository.cancel(id, identity);
    if (!found) throw problem("no such task");
    if (!found.wasCancelled) throw taskHasEnded(found.state.status);
    return answerTask(found.state, [], prefix);
  }
}

function answerTask(state: TaskState, parts: readonly Buffer[], prefix: string): RestAnswer {
  const body = taskBody(state, parts, prefix);
  const answer = answerOf(200, body, hasEnded(state) ? [] : [["Retry-After", RETRY_SECONDS]]);
  return { ...answer, etag: contentTag(body) };
}

const hasEnded = ({ finishedAt }: TaskState): boolean => finishedAt !== null;

/** `/api/v2/tasks/0191…` */
export const taskUrl = ({ taskId }: TaskState, prefix: string): string => `${prefix}/tasks/${taskId}`;

/** `{"taskId":"…","status":"pending","estimate":{"seconds":2},"_links":…}` */
export function acceptedBody(state: TaskState, prefix: string): Buffer {
  const { taskId, status, estimate } = state;
  return Buffer.from(JSON.stringify({ taskId, status, estimate, _links: linksOf(state, prefix) }));
}

/** The JSON of a task in a list. Only a failed task has `error`. */
function taskWithoutResult(state: TaskState, prefix: string) {
  const { error, ...task } = state;
  return { ...task, ...(task.status === "failed" && { error }), _links: linksOf(state, prefix) };
}

/** The body of `GET /tasks/{id}`. `parts` is the JSON of the result, which is not parsed. */
function taskBody(state: TaskState, parts: readonly Buffer[], prefix: string): Buffer {
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

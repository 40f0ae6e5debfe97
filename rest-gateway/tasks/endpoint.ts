import type { Identity } from "../../db/identity.ts";
import { contentTag } from "../conventions/conditional.ts";
import { answerOf, type Endpoint, type EndpointRequest, type RestAnswer } from "../conventions/endpoint.ts";
import { answerList } from "../conventions/list.ts";
import { parsePaging } from "../conventions/paging.ts";
import { isUuid } from "../conventions/parameters.ts";
import { badParameter, loginRequired, nothingHere } from "../conventions/problem.ts";
import { invalidTaskId, taskHasEnded, taskNotFound } from "./problem.ts";
import { hasEnded, taskBody, taskWithoutResult } from "./representation.ts";
import type { CallerTaskRepository, TaskState } from "./task-repository.ts";

export const STATUSES = ["pending", "running", "succeeded", "failed", "cancelled"];
export const PAGE_SIZE = 20;
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
    if (!isUuid(id)) throw invalidTaskId(id);
    if (action === undefined) return this.#read(id, identity, prefix);
    if (action === "cancel") return this.#cancel(id, identity, prefix);
    throw nothingHere();
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
    if (page.form !== "envelope") throw nothingHere();
    if (identity.caller.role === this.#anonymousRole) throw loginRequired();

    const { tasks, total } = await this.#repository.list(status, page.limit, page.offset, identity);
    const records = Buffer.from(JSON.stringify(tasks.map((state) => taskWithoutResult(state, prefix))));
    return answerList(page, records, total, `${prefix}/tasks`, parameters);
  }

  async #read(id: string, identity: Identity, prefix: string): Promise<RestAnswer> {
    const found = await this.#repository.find(id, identity);
    if (!found) throw taskNotFound();
    return answerTask(found.state, found.parts, prefix);
  }

  async #cancel(id: string, identity: Identity, prefix: string): Promise<RestAnswer> {
    const found = await this.#repository.cancel(id, identity);
    if (!found) throw taskNotFound();
    if (!found.wasCancelled) throw taskHasEnded(found.state.status);
    return answerTask(found.state, [], prefix);
  }
}

function answerTask(state: TaskState, parts: readonly Buffer[], prefix: string): RestAnswer {
  const body = taskBody(state, parts, prefix);
  const answer = answerOf(200, body, hasEnded(state) ? [] : [["Retry-After", RETRY_SECONDS]]);
  return { ...answer, etag: contentTag(body) };
}

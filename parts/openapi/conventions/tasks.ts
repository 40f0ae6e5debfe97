import { MAX_LIMIT } from "../../../rest-gateway/conventions/paging.ts";
import { PAGE_SIZE, STATUSES } from "../../../rest-gateway/tasks/tasks.ts";
import type { JsonSchema, PathItem } from "../document.ts";
import {
  arrayOf,
  objectOf,
  pathParameter,
  queryParameter,
  refer,
  shared,
  timeOf,
  withOptional,
} from "../schema-parts.ts";
import { countParameter, envelopeOf } from "./parameters.ts";
import { answered, notModified, problems } from "./responses.ts";
import { OPEN } from "./security.ts";

export const TASKS_TAG = {
  name: "tasks",
  description:
    "Requests that the client does not wait for: `Prefer: respond-async`. The service may not allow tasks of anonymous callers, and then ignores the preference.",
};

const TASK = refer("schemas", "Task");
const TAGS = [TASKS_TAG.name];

const ID = pathParameter("taskId", "The id of the task.", { type: "string", format: "uuid" });

/** `/tasks` and the paths below it. */
export const TASK_PATHS: Readonly<Record<string, PathItem>> = {
  "/tasks": {
    get: {
      operationId: "listTasks",
      tags: TAGS,
      summary: "List the caller's tasks",
      description: "The newest first, without results.",
      parameters: [
        countParameter("page", "The page, from 1.", 1, 1),
        countParameter("limit", `Tasks on a page, ${MAX_LIMIT} at most.`, 1, PAGE_SIZE),
        queryParameter("status", "Tasks with this status.", { type: "string", enum: STATUSES }),
        ...shared("If-None-Match", "version", "X-API-Version"),
      ],
      responses: {
        200: answered("A page.", refer("schemas", "TaskList"), "ETag", "X-Total-Count", "Link"),
        304: notModified(),
        ...problems(400, 401, 403, 429, 503, 504),
      },
    },
  },
  "/tasks/{taskId}": {
    get: {
      operationId: "readTask",
      tags: TAGS,
      summary: "Read a task",
      description:
        "With its result, if it has succeeded. A task of an anonymous caller can be read by every caller who knows its id.",
      parameters: [ID, ...shared("If-None-Match", "version", "X-API-Version")],
      responses: {
        200: answered("The task.", TASK, "ETag", "Retry-After"),
        304: notModified(),
        ...problems(400, 401, 403, 404, 429, 503, 504),
      },
      ...OPEN,
    },
  },
  "/tasks/{taskId}/cancel": {
    post: {
      operationId: "cancelTask",
      tags: TAGS,
      summary: "Cancel a task",
      description: "Its work is rolled back.",
      parameters: [ID, ...shared("version", "X-API-Version")],
      responses: {
        200: answered("The task as it is now.", TASK, "ETag"),
        ...problems(400, 401, 403, 404, 409, 429, 503, 504),
      },
      ...OPEN,
    },
  },
};

const timeOrNull = (description: string): JsonSchema => ({ ...timeOf(description), type: ["string", "null"] });

const FACTS = {
  taskId: { type: "string", format: "uuid" },
  status: { type: "string", enum: STATUSES },
  estimate: objectOf({ seconds: { type: "integer", minimum: 0 } }, "The expected time until it ends."),
} as const satisfies Record<string, JsonSchema>;

const LINKS = withOptional(objectOf({ self: refer("schemas", "Link") }), { cancel: refer("schemas", "Link") });

export const TASK_SCHEMAS = {
  AcceptedTask: objectOf({ ...FACTS, _links: LINKS }, "The response 202 to a request with `Prefer: respond-async`."),
  Task: withOptional(
    objectOf({
      ...FACTS,
      createdAt: timeOf("When the request was received."),
      startedAt: timeOrNull("When it started."),
      finishedAt: timeOrNull("When it ended."),
      _links: LINKS,
    }),
    {
      result: { description: "The body of the response to the request, if it has succeeded." },
      error: {
        type: "object",
        description: "Why it has failed: the status and the body of the problem.",
        additionalProperties: true,
      },
    },
  ),
  TaskList: envelopeOf(arrayOf(TASK)),
} as const satisfies Record<string, JsonSchema>;

import { MAX_LIMIT } from "../../conventions/paging.ts";
import { answered, notModified, problems } from "../../openapi/convention-responses.ts";
import type { JsonSchema, Operation, Parameter, PathItem, Response } from "../../openapi/document.ts";
import { arrayOf, objectOf, queryParameter, refer } from "../../openapi/schema-parts.ts";
import { PAGE_SIZE, STATUSES } from "../../tasks/endpoint.ts";
import { OPEN } from "./access.ts";
import { shared } from "./parameters.ts";
import { envelopeOf } from "./schemas.ts";

export const TASKS_TAG = {
  name: "tasks",
  description: "Requests that the client does not wait for: `Prefer: respond-async`.",
};

/** 202, when the client does not wait. */
export const accepted = (): Response =>
  answered("A task handles the request; `Prefer: respond-async`.", refer("schemas", "AcceptedTask"), "Location");

/** `/tasks` and the paths below it. */
export const taskPaths = (): Readonly<Record<string, PathItem>> => ({
  "/tasks": { get: LIST },
  "/tasks/{taskId}": { get: READ },
  "/tasks/{taskId}/cancel": { post: CANCEL },
});

const task = refer("schemas", "Task");
const VERSION = shared("version", "X-API-Version");
const TAGS = [TASKS_TAG.name];

const ID: Parameter = {
  name: "taskId",
  in: "path",
  description: "The id of the task.",
  required: true,
  schema: { type: "string", format: "uuid" },
};

const LIST: Operation = {
  operationId: "listTasks",
  tags: TAGS,
  summary: "List the caller's tasks",
  description: "The newest first, without results.",
  parameters: [
    queryParameter("page", "The page, from 1.", { type: "integer", minimum: 1, default: 1 }),
    queryParameter("limit", `Tasks on a page, ${MAX_LIMIT} at most.`, {
      type: "integer",
      minimum: 1,
      default: PAGE_SIZE,
    }),
    queryParameter("status", "Tasks with this status.", { type: "string", enum: STATUSES }),
    ...shared("If-None-Match"),
    ...VERSION,
  ],
  responses: {
    200: answered("A page.", refer("schemas", "TaskList"), "ETag", "X-Total-Count", "Link"),
    304: notModified(),
    ...problems(400, 401, 403, 429, 503, 504),
  },
};

const READ: Operation = {
  operationId: "readTask",
  tags: TAGS,
  summary: "Read a task",
  description:
    "With its result, if it has succeeded. A task of an anonymous caller can be read by every caller who knows its id.",
  parameters: [ID, ...shared("If-None-Match"), ...VERSION],
  responses: {
    200: answered("The task.", task, "ETag", "Retry-After"),
    304: notModified(),
    ...problems(400, 401, 403, 404, 429, 503, 504),
  },
  ...OPEN,
};

const CANCEL: Operation = {
  operationId: "cancelTask",
  tags: TAGS,
  summary: "Cancel a task",
  description: "Its work is rolled back.",
  parameters: [ID, ...VERSION],
  responses: {
    200: answered("The task as it is now.", task, "ETag"),
    ...problems(400, 401, 403, 404, 409, 429, 503, 504),
  },
  ...OPEN,
};

const time = (description: string): JsonSchema => ({ type: "string", format: "date-time", description });
const orNull = (schema: JsonSchema): JsonSchema => ({ ...schema, type: ["string", "null"] });

const facts = {
  taskId: { type: "string", format: "uuid" },
  status: { type: "string", enum: STATUSES },
  estimate: objectOf({ seconds: { type: "integer", minimum: 0 } }, "The expected time until it ends."),
} as const satisfies Record<string, JsonSchema>;

const linksOf: JsonSchema = {
  type: "object",
  properties: { self: refer("schemas", "Link"), cancel: refer("schemas", "Link") },
  required: ["self"],
};

const whole = objectOf({
  ...facts,
  progress: objectOf({
    done: { type: "integer", minimum: 0 },
    total: { type: ["integer", "null"], description: "Null when it is not known." },
  }),
  createdAt: time("When the request was received."),
  startedAt: orNull(time("When it started.")),
  finishedAt: orNull(time("When it ended.")),
  _links: linksOf,
});

export const TASK_SCHEMAS: Readonly<Record<"Task" | "TaskList" | "AcceptedTask", JsonSchema>> = {
  AcceptedTask: objectOf({ ...facts, _links: linksOf }),
  Task: {
    ...whole,
    properties: {
      ...whole.properties,
      result: { description: "The body of the response to the request, if it has succeeded." },
      error: {
        type: "object",
        description: "Why it has failed: the status and the body of the problem.",
        additionalProperties: true,
      },
    },
  },
  TaskList: envelopeOf(arrayOf(task)),
};

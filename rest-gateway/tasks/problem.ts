import { RETRY_SECONDS } from "../../http/pipeline/response.ts";
import { restError as error, type RestProblem } from "../conventions/problem.ts";

export const invalidTaskId = (text: string) =>
  error(400, "INVALID_ID", `"${text.slice(0, 50)}" is not a valid task id: it must be a UUID`, {
    faults: [{ field: "taskId", message: "must be a UUID" }],
  });

export const taskNotFound = () => error(404, "RESOURCE_NOT_FOUND", "there is no task with this id");

export const taskHasEnded = (status: string) =>
  error(
    409,
    "RESOURCE_CONFLICT",
    `the task has already ${status === "cancelled" ? "been cancelled" : status} and cannot be cancelled`,
  );

export const tooManyTasks = (max: number) =>
  error(429, "RATE_LIMITED", `you have ${max} unfinished tasks: wait until one has ended, or cancel one`, {
    headers: { "Retry-After": RETRY_SECONDS },
  });

export const ownStorageFull = (max: number) =>
  error(
    429,
    "RATE_LIMITED",
    `your tasks and their results may not take up more than ${max} bytes: try again when earlier ones have been deleted`,
    { headers: { "Retry-After": STORAGE_RETRY_SECONDS } },
  );

export const storageFull = () =>
  error(
    503,
    "INTERNAL_ERROR",
    "the storage for tasks is full: send the request without respond-async, or try again later",
    { headers: { "Retry-After": STORAGE_RETRY_SECONDS } },
  );

/** Stored results are deleted every few minutes. */
const STORAGE_RETRY_SECONDS = "300";

export const ERROR_TOO_LARGE: RestProblem = {
  status: 400,
  code: "VALIDATION_ERROR",
  message: "the request is not valid, and the list of its errors is too large to store: send less data at a time",
};

export const CALLER_HAS_CHANGED: RestProblem = {
  status: 403,
  code: "PERMISSION_DENIED",
  message: "the account that sent the request has been disabled or now has another role",
};

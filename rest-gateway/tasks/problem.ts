import { RETRY_SECONDS } from "../../http/response.ts";
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

export const CALLER_HAS_CHANGED: RestProblem = {
  status: 403,
  code: "PERMISSION_DENIED",
  message: "the account that sent the request has been disabled or now has another role",
};

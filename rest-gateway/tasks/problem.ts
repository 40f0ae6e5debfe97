import { RETRY_SECONDS } from "../../http/retry.ts";
import { restError as error, type RestProblem } from "../conventions/problem.ts";

export const notATaskId = (text: string) =>
  error(400, "INVALID_ID", `"${text.slice(0, 50)}" is no id of a task: it must be a UUID`, {
    faults: [{ field: "taskId", message: "must be an id" }],
  });

export const noSuchTask = () => error(404, "RESOURCE_NOT_FOUND", "there is no task with this id");

export const alreadyEnded = (status: string) =>
  error(
    409,
    "RESOURCE_CONFLICT",
    `the task has ${status === "cancelled" ? "been cancelled" : status}: it can not be cancelled`,
  );

export const tooManyTasks = (max: number) =>
  error(429, "RATE_LIMITED", `${max} tasks have not ended yet: wait for one, or cancel it`, {
    headers: { "Retry-After": RETRY_SECONDS },
  });

export const CALLER_HAS_CHANGED: RestProblem = {
  status: 403,
  code: "PERMISSION_DENIED",
  message: "the account of who has asked for it is disabled, or has another role now",
};

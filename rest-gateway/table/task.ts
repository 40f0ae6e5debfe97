import { isUtf8 } from "node:buffer";
import type { Caller } from "../../db/caller.ts";
import type { Exchange } from "../../http/exchange.ts";
import { recipientOfResponse } from "../../http/recipient.ts";
import { requestHeaders } from "../../http/request.ts";
import { RestError } from "../conventions/problem.ts";
import type { NewTask, TaskQueue } from "../tasks/task-handler.ts";
import type { Answer } from "./answer/answer.ts";
import type { Format } from "./plan.ts";
import { TableError, toTableProblem } from "./problem.ts";
import type { Prepared } from "./query.ts";
import type { RequestUrl, TableRequest } from "./request.ts";

/** The formats whose bodies are JSON. */
const JSON_FORMATS: ReadonlySet<Format["kind"]> = new Set(["array", "object", "geojson", "scalar"]);

/**
 * Whether the request becomes a task: it calls a function, the client prefers `respond-async`, the result is JSON, which can
 * be stored, and the transaction is not rolled back.
 */
export function isTask({ method, preferences }: TableRequest, { plan, isRolledBack }: Prepared, body: Buffer): boolean {
  if (!preferences.respondsAsync || method !== "POST" || plan.kind !== "call") return false;
  return JSON_FORMATS.has(plan.format.kind) && plan.format.explain === null && !isRolledBack && isUtf8(body);
}

export function taskOf(
  { request: sender, response, identity }: Exchange,
  { path, search }: RequestUrl,
  caller: Caller,
  body: Buffer,
): NewTask {
  const { method = "", headers } = sender;
  const url = search === "" ? path : `${path}?${search}`;
  const request = { method, url, headers: JSON.parse(requestHeaders(headers)), body: body.toString() };
  const recipient = recipientOfResponse(response, identity, caller);
  return { kind: "function", caller, request, rows: 0, sender, recipient };
}

/** Queues the task. The answer is 202. Throws TableError if the caller has too many tasks. */
export async function acceptTask(tasks: TaskQueue, task: NewTask, prepared: Prepared): Promise<Answer> {
  const { status, headers, body } = await tasks.accept(task, "").catch((error) => {
    throw error instanceof RestError ? new TableError(toTableProblem(error.problem), { cause: error }) : error;
  });
  const applied = [prepared.appliedPreferences, "respond-async"].filter((text) => text !== "").join(", ");
  const others = headers.filter(([name]) => name !== APPLIED);
  return { status, headers: [JSON_TYPE, ...others, [APPLIED, applied]], body };
}

const APPLIED = "Preference-Applied";
const JSON_TYPE = ["Content-Type", "application/json; charset=utf-8"] as const;

import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { Statement } from "../../db/transaction.ts";
import { requestHeaders } from "../../http/request-context.ts";
import { RestError } from "../conventions/problem.ts";
import type { NewTask, TaskQueue } from "../tasks/task-handler.ts";
import { type Address, urlOf } from "./address.ts";
import type { Answer } from "./answer/answer.ts";
import { appliedPreferences } from "./answer/applied-preferences.ts";
import type { Format } from "./plan/plan.ts";
import type { Prepared } from "./prepare.ts";
import { inOurWords, TableError } from "./problem.ts";
import type { TableRequest } from "./request.ts";

/** Whose bodies are JSON. */
const KEEPABLE: ReadonlySet<Format["kind"]> = new Set(["array", "object", "geojson", "scalar"]);

/**
 * Whether the client does not want to wait for a function, and need not: its answer is JSON that can be kept, and what it
 * does is to stay.
 */
export function isWork({ method, preferences }: TableRequest, { plan, isRolledBack }: Prepared, body: Buffer): boolean {
  if (!preferences.respondsAsync || method !== "POST" || plan.kind !== "call") return false;
  return KEEPABLE.has(plan.format.kind) && plan.format.explain === null && !isRolledBack && isUtf8(body);
}

export function taskOf(
  { method = "", headers }: IncomingMessage,
  address: Address,
  caller: Caller,
  body: Buffer,
): NewTask {
  const kept = JSON.parse(requestHeaders(headers));
  const request = { method, url: urlOf(address), headers: kept, body: body.toString() };
  return { kind: "function", caller, request, rows: 0 };
}

/** The answer to a request that is a task now; too many tasks are told in the words of this interface. */
export async function acceptTask(tasks: TaskQueue, task: NewTask, prepared: Prepared): Promise<Answer> {
  const { status, headers, body } = await tasks.accept(task, "").catch((error) => {
    throw error instanceof RestError ? new TableError(inOurWords(error.problem), { cause: error }) : error;
  });
  const applied = [appliedPreferences(prepared), "respond-async"].filter((text) => text !== "").join(", ");
  const others = headers.filter(([name]) => name !== APPLIED);
  return { status, headers: [JSON_TYPE, ...others, [APPLIED, applied]], body };
}

const APPLIED = "Preference-Applied";
const JSON_TYPE = ["Content-Type", "application/json; charset=utf-8"] as const;

/** The same call, whose body becomes the result of a task. What the statement checks by the number of rows, it still does. */
export function keepingResult({ text, values }: Statement, taskId: string): Statement {
  const work = `with work (body, rows) as materialized (${text})`;
  const keep = `select tasks.keep_result($${values.length + 1}::uuid, body) from work where rows is not null`;
  return { text: `${work} ${keep}`, values: [...values, taskId] };
}

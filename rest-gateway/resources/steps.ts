import type { Step } from "../tasks/task-handler.ts";
import type { ResourceRequest } from "./request.ts";
import { type Of, statementOf } from "./write/statement.ts";
import { CLOSE_PAGES, FETCH_PAGE, FETCH_REST, writeImport, writeNoRecords, writePages } from "./write/work.ts";

/** Records of one step, so that a client sees how far a task has come: reading is faster than writing. */
const IMPORTED = 500;
const EXPORTED = 2000;

/** Makes the records of a list, some at a time; `id` is that of the task. */
export function importSteps(request: ResourceRequest, operation: Of<"create">, id: string): Step[] {
  const { values } = request;
  const written = writeImport(request, operation, values.length);
  const records: readonly unknown[] = JSON.parse(values[operation.body]!);
  const steps: Step[] = [];
  for (let first = 0; first < records.length; first += IMPORTED) {
    const some = records.slice(first, first + IMPORTED);
    const given = values.with(operation.body, JSON.stringify(some));
    steps.push({ statement: statementOf(written, [...given, id]), rows: some.length });
  }
  return steps;
}

/** Reads a whole list, page by page; `count` is how many records it had a moment ago. */
export function exportSteps(request: ResourceRequest, operation: Of<"list">, id: string, count: number): Step[] {
  const values = [...request.values, id];
  const task = request.values.length;
  const fullPages = Math.floor(count / EXPORTED);
  const fetchPage: Step = { statement: statementOf(FETCH_PAGE, []), rows: EXPORTED };
  return [
    { statement: statementOf(writeNoRecords(task), values), rows: 0 },
    { statement: statementOf(writePages(request, operation, task, EXPORTED), values), rows: 0 },
    ...Array.from({ length: fullPages }, () => fetchPage),
    { statement: statementOf(FETCH_REST, []), rows: count - fullPages * EXPORTED },
    { statement: statementOf(CLOSE_PAGES, []), rows: 0 },
  ];
}

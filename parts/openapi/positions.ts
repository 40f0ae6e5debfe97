import type { Components, OpenApiDocument, Operation, PathItem, Response } from "./document.ts";
import { headerParameter, refer } from "./schema-parts.ts";

const READ_AFTER = "ReadAfter";
const WRITE_POSITION = "WritePosition";

/** What `withPositions` refers to. */
export const POSITION_COMPONENTS = {
  parameters: {
    [READ_AFTER]: headerParameter(
      "Change-Position",
      "The `Change-Position` of a write: the response contains it, whichever server answers.",
    ),
  },
  headers: {
    [WRITE_POSITION]: {
      description: "The position of this write, for reads that must see it. Absent if nothing was written.",
      schema: { type: "string" },
    },
  },
} as const satisfies Pick<Components, "parameters" | "headers">;

/** The paths of a service with replicas: writes return their position, and reads accept it. */
export const withPositions = (paths: OpenApiDocument["paths"]): OpenApiDocument["paths"] =>
  mapped(paths, (item) => mapped(item as Required<PathItem>, (operation, method) => positioned(operation!, method)));

function positioned(operation: Operation, method: string): Operation {
  const { parameters, responses } = operation;
  const isRead = method === "get" || method === "x-query" || Object.values(responses).some(hasPosition);
  if (isRead) return { ...operation, parameters: [...parameters, refer("parameters", READ_AFTER)] };
  const header = { "Change-Position": refer("headers", WRITE_POSITION) };
  const written = (response: Operation["responses"][string], status: string) =>
    COMPLETE.has(status) ? { ...response, headers: { ...(response as Response).headers, ...header } } : response;
  return { ...operation, responses: mapped(responses, written) };
}

/** A task, which is accepted with 202, has not written yet. */
const COMPLETE: ReadonlySet<string> = new Set(["200", "201", "204", "206"]);

const hasPosition = (response: Operation["responses"][string]) =>
  "headers" in response && "Change-Position" in response.headers!;

const mapped = <Value>(
  values: Readonly<Record<string, Value>>,
  map: (value: Value, key: string) => Value,
): Record<string, Value> => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value, key)]));

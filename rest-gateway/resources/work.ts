import { CREDENTIALS } from "../conventions/parameters.ts";
import type { NewTask } from "../tasks/task-handler.ts";
import type { Exchange } from "./exchange.ts";
import type { ResourceRequest } from "./request.ts";

/** Whether a client may choose not to wait: for a list of new records, and for a whole collection. */
export function isWork({ operation }: ResourceRequest): boolean {
  if (operation.kind === "list") return operation.paging.form === "export";
  return operation.kind === "create" && operation.isMany;
}

/** Headers that have a say in the answer. */
const KEPT_HEADERS = ["accept", "content-type", "prefer", "x-api-version", "accept-version"];

export function workOf({ request, caller, parsed }: Exchange, body: Buffer | null): NewTask {
  const { method = "GET", url = "/", headers } = request;
  const kept = KEPT_HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]]));
  const operation = parsed!.operation;
  const rows = operation.kind === "create" ? (JSON.parse(parsed!.values[operation.body]!) as unknown[]).length : 0;
  return {
    kind: operation.kind === "create" ? "import" : "export",
    caller: caller!,
    request: {
      method,
      url: withoutCredentials(url),
      headers: Object.fromEntries(kept),
      body: body?.toString() ?? null,
    },
    rows,
  };
}

/** A credential in the address is none of those who look at tasks. */
function withoutCredentials(url: string): string {
  const [path = "", search = ""] = url.split("?", 2);
  const parameters = new URLSearchParams(search);
  for (const name of CREDENTIALS) parameters.delete(name);
  return parameters.size === 0 ? path : `${path}?${parameters}`;
}

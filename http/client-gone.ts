import type { ServerResponse } from "node:http";

/** Aborted when the client goes away before it got its answer, at once when it has gone already. */
export function clientGone(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = () => controller.abort(new Error("the client has gone away"));
  if (response.destroyed) abort();
  response.once("close", () => {
    if (!response.writableFinished) abort();
  });
  return controller.signal;
}

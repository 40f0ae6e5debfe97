import type { ServerResponse } from "node:http";

/** Aborted when the client goes away before it got its answer. */
export function clientGone(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort(new Error("the client has gone away"));
  });
  return controller.signal;
}

import type { IncomingHttpHeaders } from "node:http";
import type { Span, Tracer } from "../../telemetry/span.ts";

/** Counts the round trips to the database of each request that has an X-Request-Id, whatever else the service does at the same time. */
export class RoundTrips implements Tracer {
  readonly #counts = new Map<string, number>();

  start(_name: string, { "x-request-id": id = "" }: IncomingHttpHeaders): Span {
    const request = String(id);
    const span = (): Span => ({
      traceId: "",
      header: "",
      child: (name) => {
        if (name === "transaction") this.#counts.set(request, this.of(request) + 1);
        return span();
      },
      rename: () => {},
      set: () => {},
      fail: () => {},
      end: () => {},
    });
    return span();
  }

  async close(): Promise<void> {}

  of(request: string): number {
    return this.#counts.get(request) ?? 0;
  }
}

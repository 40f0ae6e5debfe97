import { AsyncLocalStorage } from "node:async_hooks";
import type { IncomingHttpHeaders } from "node:http";

export type Attributes = Readonly<Record<string, string | number>>;

/** A part of the work for a request. Times are values of `performance.now()`; the default is the current time. */
export type Span = {
  /** 32 hexadecimal digits. All spans of a trace have the same. */
  readonly traceId: string;
  /** The context for another service: the header `traceparent`; "" if no other service takes part. Source: W3C Trace Context. */
  readonly header: string;
  child(name: string, attributes?: Attributes, start?: number): Span;
  rename(name: string): void;
  set(attributes: Attributes): void;
  /** Marks the work as failed. */
  fail(message: string): void;
  end(at?: number): void;
};

/** Starts the traces of requests. */
export type Tracer = {
  /** Continues the trace of the client if the headers have one. */
  start(name: string, headers: IncomingHttpHeaders, attributes: Attributes): Span;
  /** Sends what has not been sent. */
  close(): Promise<void>;
};

/** A request that is traced, and its id in the log. */
type TracedRequest = { readonly span: Span; readonly requestId: string };

const requests = new AsyncLocalStorage<TracedRequest>();

/** Runs the work for a request, so that `tracedRequest` returns it there. */
export const forRequest = <Result>(request: TracedRequest, work: () => Result): Result => requests.run(request, work);

/** The request that the current code works for, where it was not passed as an argument. Undefined if it is not traced. */
export const tracedRequest = (): TracedRequest | undefined => requests.getStore();

/** Measures work as a child of `parent`, if there is one. */
export function traced<Result>(parent: Span | null, name: string, work: () => Result): Result {
  if (parent === null) return work();
  const span = parent.child(name);
  try {
    return work();
  } catch (error) {
    span.fail((error as Error).message);
    throw error;
  } finally {
    span.end();
  }
}

/** A part of the work for one request. Times are in milliseconds from its beginning. */
export type Phase = { readonly name: string; readonly start: number; readonly duration: number };

/** Keeps the phases of one request, in the order in which they ended. */
export class Phases implements Tracer {
  readonly all: Phase[] = [];
  readonly #begun = performance.now();

  start(): Span {
    return this.#span("", this.#begun);
  }

  async close(): Promise<void> {}

  #span(name: string, start: number): Span {
    return {
      traceId: "",
      header: "",
      child: (child, _attributes, from = performance.now()) => this.#span(child, from),
      rename: () => {},
      set: () => {},
      fail: () => {},
      end: (at = performance.now()) => {
        if (name !== "") this.all.push({ name, start: start - this.#begun, duration: at - start });
      },
    };
  }
}

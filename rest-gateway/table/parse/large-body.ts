import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { invalidBody } from "../problem.ts";
import type { JsonContent, RequestText } from "../request.ts";
import { contentTypeOf } from "./body.ts";
import type { LargeBody, LargeResult } from "./large-body-thread.ts";

/** Bytes up to which a body is read at once: it takes less time than the largest operation of GraphQL. */
const LARGE = 1_048_576;

/** Milliseconds after its last body until the thread ends, and the memory of what it has read with it. */
const IDLE = 10_000;

const THREAD = new URL(`large-body-thread${extname(import.meta.filename)}`, import.meta.url);

type Reading = { readonly resolve: (content: JsonContent) => void; readonly reject: (error: unknown) => void };

/** A thread that reads one body after the other. It starts with the first. */
class LargeBodyReader {
  readonly #readings = new Map<number, Reading>();
  #thread: Worker | null = null;
  #idle: NodeJS.Timeout | undefined;
  #lastId = 0;

  read(body: Omit<LargeBody, "id">): Promise<JsonContent> {
    const id = ++this.#lastId;
    clearTimeout(this.#idle);
    this.#thread ??= this.#start();
    this.#thread.postMessage({ ...body, id } satisfies LargeBody, [body.bytes.buffer]);
    return new Promise((resolve, reject) => this.#readings.set(id, { resolve, reject }));
  }

  #start(): Worker {
    const thread = new Worker(THREAD, { execArgv: [] });
    thread.unref();
    thread.on("message", ({ id, content, malformed }: LargeResult) => {
      const { resolve, reject } = this.#readings.get(id)!;
      this.#readings.delete(id);
      if (this.#readings.size === 0) this.#idle = setTimeout(() => this.#stop(thread), IDLE).unref();
      if (!content) return reject(invalidBody(malformed!.message, malformed!.details));
      const { buffer, byteOffset, length } = content.text;
      resolve({ ...content, text: [Buffer.from(buffer, byteOffset, length)] });
    });
    // It has no memory left, for example.
    thread.on("error", (error) => this.#end(thread, error));
    thread.on("exit", () => this.#end(thread, new Error("the thread that reads large bodies has ended")));
    return thread;
  }

  #stop(thread: Worker): void {
    // The next body starts another one.
    this.#thread = null;
    void thread.terminate();
  }

  /** The bodies of a thread that has followed it are not concerned. */
  #end(thread: Worker, error: unknown): void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    for (const { reject } of this.#readings.values()) reject(error);
    this.#readings.clear();
  }
}

const reader = new LargeBodyReader();

/**
 * Reads a large body in a thread of its own, because everyone else would wait. A small one, and one that is only passed on, is left as
 * it is. Throws Problem for malformed content.
 */
export async function readLargeBody(request: RequestText, maxDepth: number): Promise<RequestText> {
  const { body, headers } = request;
  const type = body && body.length > LARGE ? contentTypeOf(headers["content-type"]) : null;
  if (!body || type === null) return request;
  const bytes = (body.length === body.buffer.byteLength ? body : Buffer.from(body)) as Buffer<ArrayBuffer>;
  const content = await reader.read({ type, bytes, maxDepth });
  return { ...request, body: (content.text as readonly Buffer[])[0]!, content };
}

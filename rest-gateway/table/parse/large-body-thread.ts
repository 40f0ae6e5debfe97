import { parentPort } from "node:worker_threads";
import { type ContentType, type LargeContent, Malformed, readLargeContent } from "./content.ts";

/** A body to read. The bytes are moved to the thread, and back with what it has read. */
export type LargeBody = {
  readonly id: number;
  readonly type: ContentType;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly maxDepth: number;
};

/** The answer to the body with this id. */
export type LargeResult = {
  readonly id: number;
  readonly content?: LargeContent;
  readonly malformed?: { readonly message: string; readonly details: string | undefined };
};

parentPort!.on("message", ({ id, type, bytes, maxDepth }: LargeBody) => {
  try {
    const content = readLargeContent(type, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), maxDepth);
    const moved = [content.text.buffer as ArrayBuffer, ...(content.elements ? [content.elements.buffer] : [])];
    parentPort!.postMessage({ id, content } satisfies LargeResult, moved);
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    parentPort!.postMessage({ id, malformed: { message: error.message, details: error.details } });
  }
});

import type { ServerResponse } from "node:http";

/** Bytes that go out in one write with the head, as one text; two writes cost more than to copy them. */
const ONE_WRITE = 16_384;

/** Ends an answer with its body, which is passed on as it is. */
export function endWith(response: ServerResponse, body: Buffer): void {
  if (body.length > ONE_WRITE) response.end(body);
  else response.end(body.toString("latin1"), "latin1");
}

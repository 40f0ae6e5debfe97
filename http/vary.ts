import type { ServerResponse } from "node:http";

/** The header Vary: `own`, behind what CORS has set already where it asks for the origin. */
export function varyOf(response: ServerResponse, own: string): string {
  const present = response.getHeader("Vary");
  return present === undefined ? own : `${String(present)}, ${own}`;
}

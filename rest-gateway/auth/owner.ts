import type { IncomingMessage } from "node:http";
import type { Credential } from "../../db/caller.ts";
import { identityOf } from "../../http/exchange.ts";
import { loginRequired } from "../conventions/problem.ts";
import { notByKey } from "./problem.ts";

/**
 * The id of the user who looks after his own account. A key may not: whoever got hold of it would make keys that last, or a
 * second factor that locks its owner out. Rejects with RestError.
 */
export const ownerOf = async (request: IncomingMessage): Promise<string> => (await ownerWith(request)).id;

/** The same, and what he has come with. */
export async function ownerWith(
  request: IncomingMessage,
): Promise<{ readonly id: string; readonly by: Credential["kind"] | undefined }> {
  const { claims, credential } = await identityOf(request).caller();
  if (typeof claims.sub !== "string") throw loginRequired();
  if (credential?.kind === "key") throw notByKey();
  return { id: claims.sub, by: credential?.kind };
}

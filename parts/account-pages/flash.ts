import { Cookie } from "../../identity/cookies.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";

/** What a form leaves for the page at which the browser continues: it is shown once. */
export type Flash = {
  /** What has happened. */
  readonly notice?: string;
  /** A new API key. */
  readonly key?: string;
  /** New backup codes. */
  readonly codes?: readonly string[];
  /** The secret with which the browser completes what it has begun at a provider. */
  readonly verifier?: string;
};

const COOKIE = new Cookie("__Host-account");

/** Seconds, in which the user may sign in at a provider. */
const LIFETIME = 600;

type Visited = Pick<Call, "auth" | "request" | "response">;

/** The cookie is encrypted, and valid for one user. */
export function setFlash({ auth, response }: Visited, userId: string, flash: Flash): void {
  const sealed = auth.pageBox.seal(JSON.stringify(flash), userId).toString("base64url");
  COOKIE.set(response, sealed, LIFETIME);
}

/** What the last form has left. It stays until `endFlash`. */
export function flashOf({ auth, request }: Visited, userId: string): Flash {
  const cookie = COOKIE.in(request);
  const text = cookie === null ? null : auth.pageBox.open(Buffer.from(cookie, "base64url"), userId);
  return text === null ? {} : JSON.parse(text);
}

export function endFlash({ request, response }: Visited): void {
  if (COOKIE.in(request) !== null) COOKIE.end(response);
}

import { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import type { ReturnUrls } from "./return-url.ts";

/** What the client that starts a sign-in wants to receive. */
export type Start = {
  /** session: a cookie. token: a pair of tokens. link: the identity is linked to the account of the caller. */
  readonly mode: (typeof MODES)[number];
  /** Absolute; null if the client has named none. */
  readonly returnTo: string | null;
  /**
   * The S256 challenge of a verifier that only the client knows: it receives a sign-in code at `returnTo`, and exchanges it
   * with the verifier. Null to complete the sign-in in the response to the provider.
   */
  readonly challenge: string | null;
};

export const MODES = ["session", "token", "link"] as const;
const PARAMETERS = ["mode", "return_to", "code_challenge", "code_challenge_method"];

/** Parses `?mode=token&return_to=/app&code_challenge=…`. Throws RestError. */
export function parseStart(search: string, returnUrls: ReturnUrls): Start {
  const parameters = new Parameters(search);
  parameters.refuseMalformed();
  parameters.allowOnly(PARAMETERS);
  const mode = MODES.find((name) => name === (parameters.get("mode") ?? "session"));
  if (mode === undefined) throw badParameter("mode", `mode must be ${MODES.join(", ")}`);
  const start = { mode, returnTo: parseReturnTo(parameters, returnUrls), challenge: parseChallenge(parameters) };
  if (start.challenge === null) {
    if (mode === "link") throw badParameter("code_challenge", "code_challenge is required with mode=link");
    return start;
  }
  if (mode === "session") throw badParameter("code_challenge", "code_challenge requires mode=token or mode=link");
  if (start.returnTo === null) throw badParameter("return_to", "return_to is required with code_challenge");
  return start;
}

export function parseReturnTo(parameters: Parameters, returnUrls: ReturnUrls): string | null {
  const text = parameters.get("return_to");
  if (text === null) return null;
  const url = returnUrls.parse(text);
  if (url !== null) return url;
  const message = "return_to must be a path of this service, or a URL whose origin is in AUTH_RETURN_ORIGINS";
  throw badParameter("return_to", message);
}

function parseChallenge(parameters: Parameters): string | null {
  const challenge = parameters.get("code_challenge");
  const method = parameters.get("code_challenge_method") ?? "S256";
  if (method !== "S256") throw badParameter("code_challenge_method", "code_challenge_method must be S256");
  if (challenge === null || /^[\w-]{43}$/.test(challenge)) return challenge;
  throw badParameter(
    "code_challenge",
    "code_challenge must be the SHA-256 of the verifier in base64url: 43 characters",
  );
}

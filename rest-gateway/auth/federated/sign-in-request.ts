import { Parameters } from "../../conventions/parameters.ts";
import { badParameter } from "../../conventions/problem.ts";
import { parseReturnTo, type ReturnUrls } from "../return-urls.ts";

/** What the client that starts a sign-in wants to receive. */
export type SignInRequest = {
  /** session: a cookie. token: a pair of tokens. link: the identity is linked to the account of the caller. */
  readonly mode: (typeof MODES)[number];
  /** Absolute; null if the client has named none. */
  readonly returnTo: string | null;
  /**
   * The S256 challenge of a verifier that only the client knows: it receives a sign-in code at `returnTo`, and exchanges it
   * with the verifier. Null to complete the sign-in in the response to the provider.
   */
  readonly challenge: string | null;
  /** The API at which the sign-in has begun, and in whose way it continues; `/auth` if it is absent. */
  readonly wire?: string;
  /** The user of that API whom the identity is linked to. */
  readonly linking?: Linking;
};

/** A user, and the session in which the user has begun. */
export type Linking = { readonly userId: string; readonly session: string };

export const MODES = ["session", "token", "link"] as const;
const PARAMETERS = ["mode", "return_to", "code_challenge", "code_challenge_method"];

/** Parses `?mode=token&return_to=/app&code_challenge=…`. Throws Problem. */
export function parseSignInRequest(search: string, returnUrls: ReturnUrls): SignInRequest {
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

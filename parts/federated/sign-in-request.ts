import type { SignInRequest } from "../../rest-gateway/auth/federated.ts";
import { parseReturnTo, type ReturnUrls } from "../../rest-gateway/auth/return-urls.ts";
import { Parameters } from "../../rest-gateway/conventions/parameters.ts";
import { badParameter } from "../../rest-gateway/conventions/problem.ts";

export const MODES: readonly SignInRequest["mode"][] = ["session", "token", "link"];
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

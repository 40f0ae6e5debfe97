import { Problem } from "../../problems/problem.ts";
import { START_AGAIN } from "../../rest-gateway/auth/problem.ts";

const ASK = "Ask the administrator of this service.";

/** Why a sign-in at a provider fails, and what the user can do. */
const HINTS = {
  "unknown provider": "Go back and choose another way to sign in.",
  cancelled: "Nothing has changed. You can try again.",
  expired: START_AGAIN,
  "not verified": "Try again. If that does not help, ask the administrator of this service.",
  unavailable: "Try again later.",
  "sign-up off": `If you have an account, sign in to it and link the identity there. Otherwise: ${ASK.toLowerCase()}`,
  "not admitted": ASK,
  "no e-mail": `Allow the provider to share it. Otherwise: ${ASK.toLowerCase()}`,
  "e-mail taken": "If it is yours, sign in to it in the usual way, and link the identity there.",
  "account disabled": ASK,
} as const;

export type FailureReason = keyof typeof HINTS;

/** A sign-in at a provider that has failed. `detail` is for operators, in the log and in the security event. */
export const signInFailure = (reason: FailureReason, detail: string = reason, cause?: unknown): Problem =>
  new Problem(reason, { hint: HINTS[reason], detail, cause });

export const isSignInFailure = (error: unknown): error is Problem =>
  error instanceof Problem && error.more.detail !== undefined;

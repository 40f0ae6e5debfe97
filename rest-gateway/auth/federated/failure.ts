import type { RestCode } from "../../../db/problems/reasons.ts";
import { RestError } from "../../conventions/problem.ts";

type Failure = readonly [status: number, code: RestCode, message: string, hint: string];

const ASK = "Ask the administrator of this service.";

/** Why a sign-in at a provider fails, and what the user can do. The texts say nothing that would help an attacker. */
const FAILURES = {
  "unknown provider": [
    404,
    "RESOURCE_NOT_FOUND",
    "there is no such identity provider",
    "Go back and choose another way to sign in.",
  ],
  cancelled: [
    403,
    "PERMISSION_DENIED",
    "the sign-in was cancelled, or the provider did not allow it",
    "Nothing has changed. You can try again.",
  ],
  /** Also for a response to no request of this service, and for one that was used before. */
  expired: [
    401,
    "INVALID_TOKEN",
    "the sign-in has expired, was completed before, or began in another browser",
    "Start again, and finish within 10 minutes in the same browser. It must accept cookies.",
  ],
  "not verified": [
    401,
    "VERIFICATION_FAILED",
    "the response of the provider could not be verified",
    "Try again. If that does not help, ask the administrator of this service.",
  ],
  unavailable: [503, "INTERNAL_ERROR", "the identity provider does not respond as expected", "Try again later."],
  "sign-up off": [
    403,
    "PERMISSION_DENIED",
    "this identity is not linked to an account",
    `If you have an account, sign in to it and link the identity there. Otherwise: ${ASK.toLowerCase()}`,
  ],
  "not admitted": [403, "PERMISSION_DENIED", "this identity may not sign in here", ASK],
  "no e-mail": [
    403,
    "PERMISSION_DENIED",
    "the provider has not sent your e-mail, which a new account needs",
    `Allow the provider to share it. Otherwise: ${ASK.toLowerCase()}`,
  ],
  "e-mail taken": [
    409,
    "RESOURCE_CONFLICT",
    "another account has this e-mail",
    "If it is yours, sign in to it in the usual way, and link the identity there.",
  ],
  "account disabled": [403, "PERMISSION_DENIED", "this account is disabled", ASK],
} as const satisfies Readonly<Record<string, Failure>>;

export type FailureReason = keyof typeof FAILURES;

/** A sign-in at a provider that has failed. `detail` is for operators, in the log and in the security event. */
export class SignInFailure extends Error {
  readonly reason: FailureReason;
  readonly detail: string;

  constructor(reason: FailureReason, detail: string = reason, options?: ErrorOptions) {
    super(detail, options);
    this.reason = reason;
    this.detail = detail;
  }

  /** The error that the client receives. */
  toRestError(): RestError {
    const [status, code, message, hint] = FAILURES[this.reason];
    return new RestError({ status, code, message, hint }, { cause: this });
  }
}

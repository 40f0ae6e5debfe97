import { CREDENTIALS } from "./credentials.ts";
import { REASONS, type Reason, type RestCode } from "./reasons.ts";
import { StacklessError } from "./stackless.ts";

/** An error in one field of the input. `tags[0]` is an element, `[3].email` a field of the fourth record. */
export type Fault = {
  readonly field: string;
  readonly message: string;
  /** Without one it is that of the problem, or VALIDATION_ERROR beside a field that is missing. */
  readonly code?: RestCode;
};

/** An error with a SQLSTATE that the application has invented: `raise sqlstate 'DENID' using message = …, hint = …` */
export type OwnError = { readonly code: string; readonly status: number };

/** What a problem says besides its reason. An interface sends what its format has a place for. */
export type More = {
  /** Replaces the text of the reason: the message that the database has for it. */
  readonly message?: string;
  readonly details?: unknown;
  readonly hint?: string | undefined;
  /** The detail of an error that a function raises, for clients. */
  readonly raisedDetail?: string | undefined;
  readonly faults?: readonly Fault[];
  /** Its code and status replace those of the reason. */
  readonly own?: OwnError;
  /** In place of that of the reason: a resource has its own code for a missing record. */
  readonly code?: RestCode;
  /** Seconds after which a retry may succeed. Default for 429 and 503: RETRY_SECONDS. */
  readonly retryAfter?: number;
  /** Additional headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The methods of a path, after a method that it does not have. */
  readonly allow?: readonly string[];
  /** Finds the hint for a name that does not exist, in place of `hint`; a function of the interface that sends the error. */
  readonly hintFor?: ((reader: never) => string | null) | null;
  /** Members of the body next to the error. */
  readonly members?: Readonly<Record<string, unknown>>;
  /** What is wrong with a token: a claim, the token itself, or that no secret is configured to verify it. */
  readonly fault?: { readonly part: "claims" | "token" | "secret"; readonly message: string };
  /** The scheme of the Authorization header that is refused. */
  readonly scheme?: "Basic";
  /** The account whose second factor is needed. */
  readonly account?: {
    readonly id: string;
    readonly epoch: number;
    readonly factorKinds: readonly ("totp" | "passkey")[];
  };
  /** Why a sign-in at a provider has failed, for operators. */
  readonly detail?: string;
  readonly cause?: unknown;
};

/** `Retry-After` while the service starts, stops, is busy or has no database. */
export const RETRY_SECONDS = 5;

/** `"at most {max} bytes"` → `"max"` */
type Blank<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | Blank<Rest> : never;
type BlankOf<R extends Reason> = Blank<(typeof REASONS)[R][2]>;
type Given<R extends Reason> = [BlankOf<R>] extends [never]
  ? [more?: More]
  : [given: More & Readonly<Record<BlankOf<R>, string | number>>];

/**
 * Every error that is meant for a client. It is thrown where it is detected; the interface that sends the response gives it the
 * status, code and text that the interface has for the reason.
 */
export class Problem extends StacklessError {
  readonly reason: Reason;
  readonly more: More;

  /** Created by `problem`. */
  constructor(reason: Reason, more: More) {
    const [status, , text] = REASONS[reason];
    // The stack of a mistake of a caller is never read.
    const options = { hasStack: status >= 500, ...("cause" in more && { cause: more.cause }) };
    super(more.message ?? filled(text, more), options);
    this.reason = reason;
    this.more = more;
  }

  get status(): number {
    return this.more.own?.status ?? REASONS[this.reason][0];
  }

  get code(): RestCode {
    return this.more.code ?? REASONS[this.reason][1];
  }
}

/** `"at most {max} bytes"` → `"at most 1024 bytes"` */
export const filled = (text: string, more: More): string =>
  text.replace(/\{(\w+)\}/g, (_, name: keyof More) => String(more[name]));

/**
 * A problem, with a value for each blank in the text of its reason.
 *
 *   problem("result too large", { bytes: 1024 }) // 400 VALIDATION_ERROR "the result is larger than 1024 bytes; …"
 */
export const problem = <R extends Reason>(reason: R, ...[more = {}]: Given<R>): Problem => new Problem(reason, more);

/** Whether the credentials of a request are refused. */
export const isRefusal = (error: unknown): error is Problem => error instanceof Problem && error.reason in CREDENTIALS;

/** The headers of an error response, in every format. Some formats have another status and message for the problem. */
export function headersOf(
  problem: Problem,
  { status, message }: Pick<Problem, "status" | "message"> = problem,
): Readonly<Record<string, string>> {
  const { retryAfter, allow, headers } = problem.more;
  const seconds = retryAfter ?? (status === 429 || status === 503 ? RETRY_SECONDS : null);
  return {
    ...(status === 401 && { "WWW-Authenticate": challengeOf(problem, message) }),
    ...(seconds !== null && { "Retry-After": String(seconds) }),
    ...(allow && { Allow: allow.join(", ") }),
    ...headers,
  };
}

/** The challenge to a client that has sent no credentials. */
export const CHALLENGE = "Bearer";

/** The challenge for a token or a key that is refused. Source: RFC 6750, 3, which has no other characters in the description. */
export const invalidToken = (message: string): string =>
  `Bearer error="invalid_token", error_description="${message.replace(/["\\]|[^ -~]/g, "'")}"`;

function challengeOf(problem: Problem, message: string): string {
  // Browsers ask for a password when they receive the challenge Basic, so only clients that used Basic receive it.
  if (problem.more.scheme === "Basic") return 'Basic realm="content-service", charset="UTF-8"';
  const isMissing = problem.code === "AUTH_REQUIRED" || problem.code === "MFA_REQUIRED";
  return isRefusal(problem) && !isMissing ? invalidToken(message) : CHALLENGE;
}

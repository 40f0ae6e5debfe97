/** What a client is told: `code` is for programs, `message` and `hint` are for people. */
export type Problem = {
  readonly status: number;
  readonly code: Code;
  readonly message: string;
  readonly details?: string;
  readonly hint?: string;
  /** Seconds after which it may be gone. */
  readonly retryAfter?: number;
  /** What Postgres would call it, for the interface that speaks in its codes. */
  readonly sqlstate?: string;
};

export const CODES = [
  "AUTH_REQUIRED",
  "AUTH_EXPIRED",
  "PERMISSION_DENIED",
  "RESOURCE_NOT_FOUND",
  "RESOURCE_CONFLICT",
  "VALIDATION_ERROR",
  "RATE_LIMITED",
  "INTERNAL_ERROR",
] as const;

export type Code = (typeof CODES)[number];

/** A problem on its way to the edge of an interface, which gives it its envelope. */
export class ApiError extends Error {
  readonly problem: Problem;
  constructor(problem: Problem, options?: ErrorOptions) {
    super(problem.message, options);
    this.problem = problem;
  }
}

export const unstorableText = (): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: "text must not contain a NUL character or half of a surrogate pair",
  sqlstate: "22021",
});

export const databaseUnavailable = (): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: "the database is not available: try again",
});

export const connectionsBusy = (): Problem => ({
  status: 504,
  code: "INTERNAL_ERROR",
  message: "no connection to the database got free in time: try again",
});

export const outcomeUnknown = (): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: "the connection to the database was lost: a change may have been made or not, look before you try again",
});

export const resultTooLarge = (bytes: number): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: `the answer of the database is larger than ${bytes} bytes: ask for less at a time`,
  sqlstate: "54000",
});

export const tooManyRows = (max: number): Problem => ({
  status: 400,
  code: "VALIDATION_ERROR",
  message: `the answer has more than ${max} rows, those of lists in lists included: ask for less at a time`,
});

export const notExecuted = (): Problem => ({
  status: 409,
  code: "RESOURCE_CONFLICT",
  message: "not executed, because a field before it has failed",
});

export const internalError = (): Problem => ({ status: 500, code: "INTERNAL_ERROR", message: "internal error" });

type Row = readonly [sqlstate: string, status: number, code: Code, message: string];

/** SQLSTATE → status, code and the message that replaces Postgres' own, which names tables. First match wins. */
export const SQLSTATES: readonly Row[] = [
  ["28000", 401, "AUTH_REQUIRED", "login required"],
  ["42501", 403, "PERMISSION_DENIED", "no permission"],
  ["P0002", 404, "RESOURCE_NOT_FOUND", "not found"],
  ["42P01", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this table is gone"],
  ["42703", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this field is gone"],
  ["42883", 404, "RESOURCE_NOT_FOUND", "the schema has changed: this function is gone"],
  ["23505", 409, "RESOURCE_CONFLICT", "this value is already taken"],
  ["23503", 409, "RESOURCE_CONFLICT", "other data refers to this, or what it refers to does not exist"],
  // Since PostgreSQL 18, what `on delete restrict` raises in place of 23503.
  ["23001", 409, "RESOURCE_CONFLICT", "other data refers to this"],
  ["23P01", 409, "RESOURCE_CONFLICT", "conflict with existing data"],
  ["40001", 409, "RESOURCE_CONFLICT", "somebody else changed the same data at the same time: try again"],
  ["40P01", 409, "RESOURCE_CONFLICT", "somebody else changed the same data at the same time: try again"],
  ["55P03", 409, "RESOURCE_CONFLICT", "somebody else is changing the same data: try again"],
  ["23", 400, "VALIDATION_ERROR", "a value breaks a rule of the database"],
  ["22", 400, "VALIDATION_ERROR", "invalid value"],
  ["428C9", 400, "VALIDATION_ERROR", "this field is assigned by the service"],
  ["P0001", 400, "VALIDATION_ERROR", "refused by the database"],
  ["25006", 405, "PERMISSION_DENIED", "this request may only read"],
  ["54", 400, "VALIDATION_ERROR", "the request is too complex"],
  ["57014", 504, "INTERNAL_ERROR", "the request took too long and was cancelled"],
  ["53", 503, "INTERNAL_ERROR", "the database is busy: try again"],
  ["57P", 503, "INTERNAL_ERROR", "the database is not available: try again"],
  ["08", 503, "INTERNAL_ERROR", "the database is not available: try again"],
];

/** The fields of pg's DatabaseError that matter here. */
export type DatabaseErrorLike = Error & {
  readonly code?: string;
  readonly schema?: string;
  readonly table?: string;
  readonly constraint?: string;
  readonly routine?: string;
};

/** `public.users.users_age_range` → the sentence that the DBA wrote as the comment of that constraint. */
export type ConstraintMessages = ReadonlyMap<string, string>;

export type ErrorContext = {
  readonly constraintMessages: ConstraintMessages;
  /** Whether nobody is signed in: what is forbidden then needs a login. */
  readonly anonymous: boolean;
  /** Whether the token that was sent has expired: the login that is needed is a new one. */
  readonly expired: boolean;
};

/** SQLSTATE → problem, for every interface. Null when the error is none that a client may hear of. */
export function problemOf(error: unknown, context: ErrorContext): Problem | null {
  if (error instanceof ApiError) return error.problem;
  const raised = error as DatabaseErrorLike;
  if (typeof raised?.code !== "string") return null;
  const row = SQLSTATES.find(([sqlstate]) => raised.code!.startsWith(sqlstate));
  if (!row) return null;

  const [, status, code, message] = row;
  if (code === "AUTH_REQUIRED" || (code === "PERMISSION_DENIED" && context.anonymous))
    return loginRequired(context.expired);
  return { status, code, message: messageOf(raised, context.constraintMessages) ?? message };
}

export const loginRequired = (expired: boolean): Problem =>
  expired
    ? { status: 401, code: "AUTH_EXPIRED", message: "the access token has expired: sign in again" }
    : { status: 401, code: "AUTH_REQUIRED", message: "login required" };

/** The text of our own RAISE is meant for the client, and so is the comment of a constraint. */
function messageOf(error: DatabaseErrorLike, messages: ConstraintMessages): string | undefined {
  if (error.routine === "exec_stmt_raise") return error.message;
  return messages.get(`${error.schema}.${error.table}.${error.constraint}`);
}

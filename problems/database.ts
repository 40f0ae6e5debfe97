/** What the database, or the way to it, refuses. */
export const DATABASE = {
  "internal error": [500, "INTERNAL_ERROR", "internal error"],
  "database unavailable": [503, "INTERNAL_ERROR", "the database is not available; try again"],
  "connections busy": [504, "INTERNAL_ERROR", "timed out waiting for a free database connection; try again"],
  "outcome unknown": [
    503,
    "INTERNAL_ERROR",
    "the connection to the database was lost; a change may have been saved, so check before you try again",
  ],
  "unstorable text": [400, "VALIDATION_ERROR", "text must not contain a NUL character or an unpaired surrogate"],
  "result too large": [400, "VALIDATION_ERROR", "the result is larger than {bytes} bytes; request less at a time"],
  "too many rows": [
    400,
    "VALIDATION_ERROR",
    "the result has more than {max} rows, including those of nested lists; request less at a time",
  ],
  "stream too long": [504, "INTERNAL_ERROR", "the result has been streamed for longer than {seconds} seconds"],
  "not executed": [409, "RESOURCE_CONFLICT", "not executed, because an earlier field failed"],

  // Load and memory.
  /** More requests come than the database can answer. */
  overloaded: [503, "RATE_LIMITED", "the service has more requests than it can handle; try again"],
  /** All connections for streams are in use. */
  "streams busy": [503, "RATE_LIMITED", "too many results are being streamed; try again"],
  "clients read too slowly": [503, "RATE_LIMITED", "the service holds too many unread responses: try again"],
  "address reads too slowly": [
    503,
    "RATE_LIMITED",
    "your IP address has too many unread responses: read them or close their connections, then try again",
  ],
  /** The clients of a network may not make the service hold more: request bodies, subscriptions. */
  "address holds too much": [
    429,
    "RATE_LIMITED",
    "your IP address has too much in progress: wait until its requests have ended, or end subscriptions, then try again",
  ],

  // Errors of PostgreSQL. Its own messages name tables.
  "login required": [401, "AUTH_REQUIRED", "login required"],
  "sign-in too old": [401, "PASSWORD_REQUIRED", "the sign-in is too old for this: sign in again"],
  "no permission": [403, "PERMISSION_DENIED", "no permission"],
  "not found": [404, "RESOURCE_NOT_FOUND", "not found"],
  "table gone": [404, "RESOURCE_NOT_FOUND", "the schema has changed: this table no longer exists"],
  "field gone": [404, "RESOURCE_NOT_FOUND", "the schema has changed: this field no longer exists"],
  "field changed": [404, "RESOURCE_NOT_FOUND", "the schema has changed: this field has another type"],
  "function gone": [404, "RESOURCE_NOT_FOUND", "the schema has changed: this function no longer exists"],
  "schema gone": [404, "RESOURCE_NOT_FOUND", "the schema has changed: a schema of the database no longer exists"],
  taken: [409, "RESOURCE_CONFLICT", "this value is already taken"],
  "broken reference": [
    409,
    "RESOURCE_CONFLICT",
    "other data refers to this record, or it refers to a record that does not exist",
  ],
  "referred to": [409, "RESOURCE_CONFLICT", "other data refers to this record"],
  conflict: [409, "RESOURCE_CONFLICT", "this conflicts with existing data"],
  "changed at once": [409, "RESOURCE_CONFLICT", "another request changed the same data at the same time; try again"],
  locked: [409, "RESOURCE_CONFLICT", "another request is changing the same data; try again"],
  "no partition": [400, "VALIDATION_ERROR", "the table has no partition for this row"],
  "row outside view": [400, "VALIDATION_ERROR", "the view would not show this row, and its check option requires it"],
  "constraint violated": [400, "VALIDATION_ERROR", "a value violates a constraint of the database"],
  "invalid value": [400, "VALIDATION_ERROR", "invalid value"],
  "unknown object": [400, "VALIDATION_ERROR", "unknown name of a database object"],
  "broken object": [500, "INTERNAL_ERROR", "a database object has an invalid definition"],
  "unfit key": [
    400,
    "VALIDATION_ERROR",
    "a constraint that is deferrable, or about overlaps, cannot decide which row is updated",
  ],
  "view without data": [503, "INTERNAL_ERROR", "the materialized view has no data yet"],
  "assigned by the service": [400, "VALIDATION_ERROR", "this field is assigned by the service"],
  "raised with an own code": [400, "VALIDATION_ERROR", "refused by the database"],
  raised: [400, "VALIDATION_ERROR", "refused by the database"],
  "too often": [429, "RATE_LIMITED", "too many requests; try again later"],
  "read-only": [405, "PERMISSION_DENIED", "this request is read-only"],
  "too complex": [400, "VALIDATION_ERROR", "the request is too complex"],
  "too slow": [504, "INTERNAL_ERROR", "the request took too long and was cancelled"],
  "database busy": [503, "INTERNAL_ERROR", "the database is busy; try again"],
  "unknown role": [401, "AUTH_REQUIRED", 'the token has the role "{role}", which does not exist in the database'],
} as const;

/** What only the table interface refuses. Most texts are those of PostgREST. */
export const TABLES = {
  // Malformed input.
  "unreadable query": [400, "VALIDATION_ERROR", "failed to parse {parameter} ({text})"],
  "name too long": [400, "VALIDATION_ERROR", 'the name "{name}…" is longer than {max} bytes'],
  "too deep": [400, "VALIDATION_ERROR", "{what} is nested more than {max} levels deep"],
  "too many": [400, "VALIDATION_ERROR", "a request may have at most {max} {what}"],
  "pattern too long": [400, "VALIDATION_ERROR", "a pattern may have at most {max} characters"],
  "too many repetitions": [
    400,
    "VALIDATION_ERROR",
    "a regular expression may have at most {max} characters after its repetitions are written out",
  ],
  "expensive pattern": [
    400,
    "VALIDATION_ERROR",
    "a regular expression must not have backreferences, lookahead or lookbehind, or select another syntax",
  ],
  "expensive anchors": [
    400,
    "VALIDATION_ERROR",
    "a regular expression may have at most {max} anchors and word boundaries, and none in a part that is repeated",
  ],
  "malformed body": [400, "VALIDATION_ERROR", "{message}"],
  "unsupported media type": [415, "VALIDATION_ERROR", "Content-Type not acceptable: {type}"],
  "query type only": [415, "VALIDATION_ERROR", "Content-Type not acceptable for a query: {type}"],
  "invalid preferences": [400, "VALIDATION_ERROR", "Invalid preferences given with handling=strict"],
  "invalid range": [416, "VALIDATION_ERROR", "Requested range not satisfiable"],

  // Paths and media types.
  "table description off": [404, "RESOURCE_NOT_FOUND", "The description is disabled (OPENAPI, PARTS=-openapi)"],
  "method not for functions": [405, "VALIDATION_ERROR", "Cannot use the {method} method on RPC"],
  "method not for table": [405, "VALIDATION_ERROR", "{method} is not allowed here"],
  "no such schema": [406, "VALIDATION_ERROR", "Invalid schema: {name}"],
  "not acceptable": [406, "VALIDATION_ERROR", "None of these media types are available: {types}"],

  // Names that the catalog does not know.
  "no such table": [404, "RESOURCE_NOT_FOUND", "Could not find the table '{schema}.{name}' in the schema cache"],
  "no such function": [404, "RESOURCE_NOT_FOUND", "Could not find the function {signature} in the schema cache"],
  "ambiguous function": [300, "BAD_REQUEST", "Could not choose the best candidate function between: {signatures}"],
  "no such column": [400, "VALIDATION_ERROR", "column {table}.{column} does not exist"],
  "no such body columns": [400, "VALIDATION_ERROR", "{message}"],
  "no such type": [400, "VALIDATION_ERROR", 'type "{name}" does not exist'],
  "no relationship": [400, "VALIDATION_ERROR", "{message}"],
  "ambiguous relationship": [
    300,
    "BAD_REQUEST",
    "Could not embed because more than one relationship was found for '{source}' and '{target}'",
  ],
  "not embedded": [400, "VALIDATION_ERROR", "'{name}' is not an embedded resource in this request"],

  // Invalid combinations.
  "spread needs to one": [400, "VALIDATION_ERROR", "Feature not implemented"],
  "order needs to one": [400, "VALIDATION_ERROR", "A related order on '{target}' is not possible"],
  "embed filter needs null": [400, "VALIDATION_ERROR", "Bad operator on the '{name}' embedded resource"],
  "aggregates off": [400, "VALIDATION_ERROR", "Use of aggregate functions is not allowed"],
  "put filters": [405, "VALIDATION_ERROR", "Filters must include all and only primary key columns with 'eq' operators"],
  "put limits": [400, "VALIDATION_ERROR", "limit/offset querystring parameters are not allowed for PUT"],
  "put mismatch": [400, "VALIDATION_ERROR", "Payload values do not match URL in primary key column(s)"],
  "no versions": [412, "PRECONDITION_FAILED", "If-Match is not possible: rows of the table interface have no version"],
  unfiltered: [400, "VALIDATION_ERROR", "{command} requires a WHERE clause"],
  "max affected needs set": [
    400,
    "VALIDATION_ERROR",
    "Function must return SETOF or TABLE when max-affected preference is used with handling=strict",
  ],

  // Streams of changes.
  "stream not possible": [400, "VALIDATION_ERROR", "{message}"],
  "stream refused": [403, "PERMISSION_DENIED", "{message}"],
  "bad event id": [
    400,
    "VALIDATION_ERROR",
    "Last-Event-ID must be the id of an event, or the header Change-Position of a response",
  ],

  // Results.
  "not singular": [406, "VALIDATION_ERROR", "Cannot coerce the result to a single JSON object"],
  "too many affected": [400, "VALIDATION_ERROR", "Query result exceeds max-affected preference constraint"],
  "write answer too large": [
    400,
    "VALIDATION_ERROR",
    "the response would be larger than {max} bytes, so nothing was written",
  ],
  "bad response headers": [
    500,
    "INTERNAL_ERROR",
    "response.headers guc must be a JSON array composed of objects with a single key and a string value",
  ],
  "bad response status": [500, "INTERNAL_ERROR", "response.status guc must be a valid status code"],
  "bad raise": [500, "INTERNAL_ERROR", "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error"],
} as const;

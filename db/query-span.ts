import type { Span } from "../telemetry/span.ts";
import type { Statement } from "./batch.ts";
import type { Identity } from "./identity.ts";

/** Longer texts are cut, as most collectors would do. */
const MAX_TEXT = 4000;

/** The span of one round trip to the database. Source of the names: OpenTelemetry, "Semantic conventions for database spans". */
export const querySpan = (parent: Span, { caller }: Identity, statements: readonly Statement[]): Span =>
  parent.child("transaction", {
    "db.system.name": "postgresql",
    "db.operation.batch.size": statements.length,
    "db.query.text": statements
      .map(({ text }) => text)
      .join(";\n")
      .slice(0, MAX_TEXT),
    "db.role": caller.role,
  });

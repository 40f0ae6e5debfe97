import type { DatabaseError } from "pg-protocol";
import { ApiError } from "./errors.ts";

/** Nothing was executed: the connection does not know the statement, or a type in its result has changed. */
export const isStalePlan = (error: DatabaseError) =>
  error.code === "26000" || (error.code === "0A000" && error.routine === "RevalidateCachedQuery");

/** Every error of the server has a severity. The code of a socket error, such as ECONNRESET, is not a SQLSTATE. */
export const isSocketError = (error: DatabaseError | ApiError) =>
  !(error instanceof ApiError) && error.severity === undefined;

/** FATAL: the server has closed this connection. */
export const isLost = (error: DatabaseError) => error.severity === undefined || error.severity === "FATAL";

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

/** Errors of the moment: connections, resources, locks. */
const TRANSIENT = /^(08|53|57P|40001|40P01|55P03)/;

/** Whether a transaction that only reads may succeed if it is sent again. Errors of this program's own code have other classes. */
export const isTransient = (error: DatabaseError | ApiError | Error): boolean => {
  if (error instanceof ApiError) return error.problem.status >= 500;
  const { severity, code = "" } = error as Partial<DatabaseError>;
  return severity === undefined ? error.constructor === Error : TRANSIENT.test(code);
};

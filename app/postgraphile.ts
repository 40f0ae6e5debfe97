// What applications import as "content-service/postgraphile": the PostGraphile of the service, for plugins.
import "../plugins/transliteration.ts";

export * from "postgraphile/@dataplan/pg";
export * from "postgraphile/grafast";
export { type ObjectPlan, version } from "postgraphile/grafast";
export { type SQL, sql } from "postgraphile/pg-sql2";
export * from "postgraphile/utils";
export { withArguments } from "../plugins/shape/FieldSourcesPlugin.ts";
export { changes, currentRow, oldRow } from "../plugins/subscriptions/change-steps.ts";

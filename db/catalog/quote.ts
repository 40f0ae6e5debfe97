import pg from "pg";
import type { TableName } from "./catalog.ts";

/** `{ schema: "public", name: "full_name" }` → `"public"."full_name"` */
export const quoteName = ({ schema, name }: TableName): string =>
  `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`;

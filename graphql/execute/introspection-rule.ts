import { GraphQLError } from "postgraphile/graphql";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Operation } from "./operation.ts";

export type IntrospectionOptions = {
  readonly anonymousRole: string;
  /** Who can read the schema. */
  readonly introspection: "on" | "authenticated" | "off";
};

/** Why the caller may not execute an operation that reads the schema; null if it does not read it, or the caller may. */
export function refusedIntrospection(
  { introspects }: Operation,
  { caller }: Identity,
  { introspection, anonymousRole }: IntrospectionOptions,
): GraphQLError | null {
  if (!introspects || introspection === "on") return null;
  if (introspection === "authenticated" && caller.role !== anonymousRole) return null;
  const [code, message] =
    introspection === "off"
      ? ["PERMISSION_DENIED", "introspection is turned off: GRAPHQL_INTROSPECTION=off"]
      : ["AUTH_REQUIRED", "introspection requires that you sign in: GRAPHQL_INTROSPECTION=authenticated"];
  return new GraphQLError(message, { extensions: { code } });
}

import {
  BreakingChangeType,
  findBreakingChanges,
  findDangerousChanges,
  type GraphQLSchema,
} from "postgraphile/graphql";
import type { Configured } from "../../../app/configured.ts";
import { schemaOptions, withCore } from "../../../cli/open-core.ts";
import type { Catalog } from "../../../db/catalog/catalog.ts";
import { callerRoles, type Exposure, exposureOf } from "../../../db/catalog/exposure.ts";
import type { Logins } from "../../../db/cluster/provision.ts";
import type { Finding } from "../../../db/findings/finding.ts";
import { type BuiltSchema, buildSchema } from "../../../graphql/schema/schema.ts";
import type { Levels } from "../../../service/core.ts";
import type { OpenApiDocument } from "../../openapi/document.ts";
import { openApi } from "../../openapi/tables/openapi.ts";
import { restChanges } from "./rest-changes.ts";

/** What clients see of a database. TypeScript types are not in it: they follow from the same catalog as the description of REST. */
export type Contract = {
  /** The reason, if there is no schema. */
  readonly graphql: BuiltSchema | Error;
  /** What each role of callers may use. */
  readonly exposures: ReadonlyMap<string, Exposure>;
  /** The description of `/rest/v1`, by role and served schema. */
  readonly rest: ReadonlyMap<string, ReadonlyMap<string, OpenApiDocument>>;
};

/** A difference between two contracts. `roles` are those of the callers who notice it; empty for all. */
export type Change = {
  readonly interface: "GraphQL" | "REST";
  readonly text: string;
  readonly isBreaking: boolean;
  readonly roles: readonly string[];
  /** Whether it follows from another change: the type of a filter, from that of a table. */
  readonly isDerived: boolean;
};

/** Reads the contract of a database of the service, with the logins that serve it. */
export function readContract(configured: Configured, { data, admin, service }: Logins): Promise<Contract> {
  const contractOf = async (core: Levels["catalog"]) => {
    const catalog = core.catalog.current;
    const names = [data, admin, service].map((url) => decodeURIComponent(new URL(url).username));
    const roles = callerRoles(catalog, names).map(({ name }) => name);
    const graphql = await buildSchema(await schemaOptions(configured, core)).catch((error: Error) => error);
    return {
      graphql,
      exposures: new Map(roles.map((role) => [role, exposureOf(catalog, role)])),
      rest: new Map(roles.map((role) => [role, describeRest(catalog, role)])),
    };
  };
  return withCore(configured.config, "catalog", contractOf, data);
}

const describeRest = (catalog: Catalog, role: string): ReadonlyMap<string, OpenApiDocument> =>
  new Map([...catalog.schemas.keys()].map((schema) => [schema, openApi(catalog, { schema, role, baseUrl: "" })]));

/** What differs between two contracts, what breaks clients first. */
export function contractChanges(before: Contract, after: Contract): readonly Change[] {
  const everyone = after.rest.size;
  return [...graphqlChanges(before, after), ...restChangesByRole(before, after)]
    .map((change) => (change.roles.length === everyone ? { ...change, roles: [] } : change))
    .sort((a, b) => Number(b.isBreaking) - Number(a.isBreaking) || Number(a.isDerived) - Number(b.isDerived));
}

/** What the schema of `after` leaves out, and that of `before` does not. */
export function newOmissions(before: Contract, after: Contract): readonly Finding[] {
  const [known, found] = [before, after].map(({ graphql }) => (graphql instanceof Error ? [] : graphql.omissions));
  return found!.filter(({ rule, object }) => !known!.some((each) => each.rule === rule && each.object === object));
}

/** All callers share the schema. Who may use a field follows from the objects of the database that lead to it. */
function graphqlChanges(before: Contract, after: Contract): readonly Change[] {
  const [was, is] = [before, after].map(({ graphql }) => (graphql instanceof Error ? null : graphql.schema));
  const reason = after.graphql instanceof Error && was !== null ? `: ${after.graphql.message}` : "";
  return schemaChanges(was!, is!).map((change) => {
    const roles = rolesOf(change, before) ?? rolesOf(change, after);
    return {
      interface: "GraphQL",
      text: change.text + reason,
      isBreaking: change.isBreaking,
      roles: roles ?? [],
      isDerived: roles === null && /^\S+ was (removed|added)$/.test(change.text),
    };
  });
}

/** Null if the contract does not have the field. */
function rolesOf({ field }: SchemaChange, { graphql, exposures }: Contract): readonly string[] | null {
  const objects = graphql instanceof Error ? undefined : graphql.sources.get(field);
  if (objects === undefined) return null;
  return [...exposures].flatMap(([role, { tables, functions }]) => {
    const mayUse = objects.every(({ kind, schema, name, part }) => {
      if (kind === "function") return functions.some((each) => each.schema === schema && each.name === name);
      const exposed = tables.find(({ table }) => table.schema === schema && table.name === name);
      if (kind !== "column" || exposed === undefined) return exposed !== undefined;
      return Object.values(exposed.columns).some((columns) => columns === "all" || columns.includes(part));
    });
    return mayUse ? [role] : [];
  });
}

/** Equal changes of several roles are one. */
function restChangesByRole(before: Contract, after: Contract): readonly Change[] {
  const found = new Map<string, { isBreaking: boolean; roles: string[] }>();
  for (const role of new Set([...before.rest.keys(), ...after.rest.keys()])) {
    const [was, is] = [before, after].map(({ rest }) => rest.get(role));
    const schemas = new Set([...(was?.keys() ?? []), ...(is?.keys() ?? [])]);
    for (const schema of schemas) {
      const changes = restChanges(was?.get(schema) ?? null, is?.get(schema) ?? null);
      for (const { text, isBreaking } of changes) {
        const key = schemas.size > 1 ? `${text} (schema ${schema})` : text;
        const known = found.get(key) ?? { isBreaking: false, roles: [] };
        found.set(key, { isBreaking: known.isBreaking || isBreaking, roles: [...known.roles, role] });
      }
    }
  }
  return [...found].map(([text, change]) => ({ interface: "REST", text, ...change, isDerived: false }));
}

/** A difference between two schemas; `field` is the one that it is about, as `Note.title`, or a type. */
type SchemaChange = { readonly text: string; readonly isBreaking: boolean; readonly field: string };

/** What is new in the reverse direction has been removed. */
const ADDITIONS: ReadonlySet<string> = new Set([BreakingChangeType.TYPE_REMOVED, BreakingChangeType.FIELD_REMOVED]);

/** What changes for clients of GraphQL. A schema is null if there is nothing to serve. */
function schemaChanges(before: GraphQLSchema | null, after: GraphQLSchema | null): readonly SchemaChange[] {
  if (before === null || after === null)
    return before === after
      ? []
      : [
          {
            text: `the schema was ${before === null ? "added" : "removed"}`,
            isBreaking: after === null,
            field: "Query",
          },
        ];
  const breaking = findBreakingChanges(before, after).map(({ description }) => changeOf(description, true));
  const others = findDangerousChanges(before, after).map(({ description }) => changeOf(description, false));
  const added = findBreakingChanges(after, before)
    .filter(({ type }) => ADDITIONS.has(type))
    .map(({ description }) => changeOf(description.replace(/was removed\.?$/, "was added"), false));
  return [...breaking, ...added, ...others];
}

/** `Note.title was removed.` → `Note.title` */
const changeOf = (description: string, isBreaking: boolean): SchemaChange => ({
  text: description.replace(/\.$/, ""),
  isBreaking,
  field: /\b[A-Z]\w*(?:\.\w+)?/.exec(description)?.[0] ?? "",
});

import {
  type PgResource,
  pgInsertSingle,
  pgUpdateSingle,
  sqlValueWithCodec,
  withPgClient,
} from "postgraphile/@dataplan/pg";
import { ApplyInputStep, access, list, SafeError, setter, sideEffect } from "postgraphile/grafast";
import type { GraphQLSchema } from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { type CallSource, isPlain, withSource } from "../shape/FieldSourcesPlugin.ts";

type TableResource = PgResource<any, any, any, any, any>;
type KeyArgument = { readonly attribute: string; readonly argName: string; readonly type: any };
type WriteScope = "resource:insert" | "resource:update" | "resource:delete";

/**
 * `createX(input: CreateXInput!): X!`, `updateX(id: ID!, input: UpdateXInput!): X!`, `deleteX(id: ID!): Boolean!`: every
 * writable table has mutations of this shape. A SQL function of the same name takes precedence. GRANTs decide which
 * columns the inputs have, policies decide which rows can be written.
 */
export const TableMutationsPlugin: GraphileConfig.Plugin = {
  name: "TableMutationsPlugin",
  version: "1.0.0",
  after: ["MutationShapePlugin"],
  schema: {
    entityBehavior: {
      pgResource: {
        inferred: {
          // First, so that GRANTs (PgRBACPlugin) and smart tags override it.
          provides: ["default"],
          before: ["inferred", "override"],
          callback: (behavior, resource) =>
            resource.parameters || !resource.codec.attributes ? behavior : ["insert", "update", "delete", behavior],
        },
      },
    },
    hooks: {
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootMutation) return fields;
        let extended = fields;
        for (const resource of Object.values(build.pgResources) as TableResource[]) {
          for (const [fieldName, fieldBehaviorScope, make] of mutationsOf(build, resource)) {
            if (fieldName in extended || !build.behavior.pgResourceMatches(resource, fieldBehaviorScope)) continue;
            const field = fieldWithHooks({ fieldName, fieldBehaviorScope, pgFieldResource: resource }, make);
            extended = build.extend(
              extended,
              { [fieldName]: field },
              `Adding ${fieldBehaviorScope} for '${resource.name}'`,
            );
          }
        }
        return extended;
      },
    },
  },
};

function mutationsOf(build: GraphileBuild.Build, resource: TableResource): [string, WriteScope, () => any][] {
  const { codec } = resource;
  if (resource.parameters || !codec.attributes || codec.isAnonymous) return [];
  const { isInputObjectType, isOutputType } = build.graphql;
  const type = build.getGraphQLTypeByPgCodec(codec, "output");
  if (!type || !isOutputType(type)) return [];

  const typeName = build.inflection.tableType(codec);
  const name = (verb: string) => build.inflection.camelCase(`${verb}-${typeName}`);
  const input = build.getGraphQLTypeByPgCodec(codec, "input");
  const patch = build.getGraphQLTypeByPgCodec(codec, "patch");
  const keys = keyArguments(build, resource);

  const mutations: [string, WriteScope, () => any][] = [];
  // A table whose columns are all assigned by the database has no input.
  const ofRow = isInputObjectType(input) && Object.keys(input.getFields()).length > 0 ? input : null;
  mutations.push([name("create"), "resource:insert", () => createField(build, resource, type, ofRow)]);
  if (keys.length === 0) return mutations;
  if (isInputObjectType(patch)) {
    mutations.push([name("update"), "resource:update", () => updateField(build, resource, type, patch, keys)]);
  }
  mutations.push([name("delete"), "resource:delete", () => deleteField(build, resource, keys)]);
  return mutations;
}

function keyArguments(build: GraphileBuild.Build, resource: TableResource): KeyArgument[] {
  const { codec, uniques } = resource;
  const primary = uniques.find((unique: { isPrimary?: boolean }) => unique.isPrimary);
  return ((primary?.attributes ?? []) as string[]).map((attribute) => ({
    attribute,
    argName: build.inflection.attribute({ attributeName: attribute, codec }),
    type: build.getGraphQLTypeByPgCodec(codec.attributes[attribute].codec, "input"),
  }));
}

function createField(build: GraphileBuild.Build, resource: TableResource, type: any, input: any) {
  const { GraphQLNonNull } = build.graphql;
  const field = {
    description: `Creates one ${type.name}.`,
    type: new GraphQLNonNull(type),
    args: input ? { input: { type: new GraphQLNonNull(input) } } : {},
    plan(_$root: unknown, args: any) {
      const $row = pgInsertSingle(resource);
      if (input) args.apply($row, "input");
      sideEffect(access($row, "c"), (count) => {
        if (count === 0)
          throw new SafeError(`a trigger or rule has left out the ${type.name}`, { code: "RESOURCE_NOT_FOUND" });
      });
      return $row;
    },
  };
  return withRow(field, resource, (schema, args, returned) => {
    const written = input ? writtenOf(schema, input, args.input, resource) : [];
    const columns = sql.join(
      written.map(({ column }) => column),
      ", ",
    );
    const values = sql.join(
      written.map(({ value }) => value),
      ", ",
    );
    const row = written.length === 0 ? sql`default values` : sql`(${columns}) values (${values})`;
    return sql`insert into ${resource.from as SQL} as ${ROW} ${row} ${returned}`;
  });
}

function updateField(
  build: GraphileBuild.Build,
  resource: TableResource,
  type: any,
  patch: any,
  keys: readonly KeyArgument[],
) {
  const { GraphQLNonNull } = build.graphql;
  const field = {
    description: `Updates the given fields of one ${type.name}.`,
    type: new GraphQLNonNull(type),
    args: { ...argumentsFor(build, keys), input: { type: new GraphQLNonNull(patch) } },
    plan(_$root: unknown, args: any) {
      const $row = pgUpdateSingle(
        resource,
        Object.fromEntries(keys.map((key) => [key.attribute, args.getRaw(key.argName)])),
      );
      args.apply($row, "input");
      // Without a key, no row was updated: the row does not exist, or a policy hides it from updates.
      sideEffect($row.get(keys[0]!.attribute), (key) => {
        if (key == null) throw new SafeError(`${type.name} not found`, { code: "RESOURCE_NOT_FOUND" });
      });
      return $row;
    },
  };
  return withRow(field, resource, (schema, args, returned) => {
    const written = writtenOf(schema, patch, args.input, resource);
    // There is an error to say.
    if (written.length === 0) throw new Error("nothing to update");
    const changes = sql.join(
      written.map(({ column, value }) => sql`${column} = ${value}`),
      ", ",
    );
    const conditions = keys.map(({ attribute, argName }) => {
      const { codec } = resource.codec.attributes[attribute];
      return sql`${ROW}.${sql.identifier(attribute)} = ${sqlValueWithCodec(args[argName], codec)}`;
    });
    return sql`update ${resource.from as SQL} as ${ROW} set ${changes} where ${sql.join(conditions, " and ")} ${returned}`;
  });
}

/** The row that is written. */
const ROW = sql.identifier(Symbol("row"));

/** A field whose row can be read as a whole says how it is written. */
function withRow<Field extends { readonly plan?: unknown }>(
  field: Field,
  { codec }: TableResource,
  write: (schema: GraphQLSchema, args: Readonly<Record<string, any>>, returned: SQL) => SQL,
): Field {
  const attributes: readonly any[] = Object.values(codec.attributes);
  if (!isPlain(codec) || attributes.some(({ restrictedAccess, via }) => restrictedAccess || via)) return field;
  const statementOf: CallSource["statementOf"] = (schema, args, keep) =>
    write(schema, args, sql`returning ${keep(ROW)}`);
  return withSource(field, { kind: "call", codec, statementOf });
}

/** The columns of an input, with their values. */
function writtenOf(schema: GraphQLSchema, inputType: any, input: unknown, { codec }: TableResource) {
  const written: { readonly column: SQL; readonly value: SQL }[] = [];
  const row = {
    set(name: string, value: unknown) {
      written.push({ column: sql.identifier(name), value: sqlValueWithCodec(value, codec.attributes[name].codec) });
    },
  };
  const step = { inputType, operationPlan: { schema }, getTargetFromParent: () => setter(row as never) };
  ApplyInputStep.prototype.unbatchedExecute.call(
    step as never,
    {} as never,
    input as never,
    undefined as never,
  )(row as never);
  return written;
}

function deleteField(build: GraphileBuild.Build, resource: TableResource, keys: readonly KeyArgument[]) {
  const { GraphQLBoolean, GraphQLNonNull } = build.graphql;
  return {
    description: "Deletes one row. Returns false if there is no such row, or if the caller may not delete it.",
    type: new GraphQLNonNull(GraphQLBoolean),
    args: argumentsFor(build, keys),
    plan(_$root: unknown, args: any) {
      // Not pgDeleteSingle: it throws if it deletes no row, and the contract requires false.
      const $values = list(keys.map((key) => args.getRaw(key.argName)));
      const $deleted = withPgClient(resource.executor, $values, async (client, values) => {
        const conditions = keys.map(
          ({ attribute }, i) =>
            sql`${sql.identifier(attribute)} = ${sqlValueWithCodec(values[i], resource.codec.attributes[attribute].codec)}`,
        );
        const statement = sql.compile(sql`delete from ${resource.from as any} where ${sql.join(conditions, " and ")}`);
        const { rowCount } = await client.query(statement as any);
        return (rowCount ?? 0) > 0;
      });
      $deleted.hasSideEffects = true;
      return $deleted;
    },
  };
}

const argumentsFor = (build: GraphileBuild.Build, keys: readonly KeyArgument[]) =>
  Object.fromEntries(keys.map((key) => [key.argName, { type: new build.graphql.GraphQLNonNull(key.type) }]));

import type { PgResource } from "postgraphile/@dataplan/pg";
import { applyInput, createObjectAndApplyChildren, SafeError, type Step } from "postgraphile/grafast";
import { hasExtra } from "../../plugins/shape/TableExtrasPlugin.ts";
import { first, matched, resultFields, resultOf, resultType, rowErrorFields, write } from "./bulk-result.ts";
import { conditionTarget, writeDelete, writeInsert, writeUpdate, writeUpsert } from "./writes.ts";

type Table = PgResource<any, any, any, any, any>;
type Scope = "resource:insert" | "resource:update" | "resource:delete";
type Field = { readonly name: string; readonly scope: readonly Scope[]; make(): any };

/**
 * `createBookmarks`, `upsertBookmark`, `updateBookmarks` and `deleteBookmarks`: each is one transaction of many rows, for every
 * table that may be written and has the smart tag `@behavior +bulk`. Changes by a filter must state how many rows they may affect. If the database rejects a row, nothing
 * is written, and the result names the row.
 */
export const BulkMutationsPlugin: GraphileConfig.Plugin = {
  name: "BulkMutationsPlugin",
  version: "1.0.0",
  after: ["TableMutationsPlugin", "PgConnectionArgFilterPlugin"],
  gather: {
    hooks: {
      // The columns of each constraint, to name the field that violates it.
      pgTables_PgResourceOptions(_info, { pgClass, resourceOptions }) {
        const constraints = Object.fromEntries([
          ...pgClass
            .getConstraints()
            .map((constraint) => [constraint.conname, columnNames(constraint.getAttributes())]),
          ...pgClass.getIndexes().map((index) => [index.getIndexClass()?.relname, columnNames(index.getKeys())]),
        ]);
        resourceOptions.extensions = { ...resourceOptions.extensions, constraints } as never;
      },
    },
  },
  schema: {
    hooks: {
      init(_, build) {
        build.registerObjectType(
          "RowError",
          {},
          () => ({ description: ROW_ERROR, fields: () => rowErrorFields(build) }),
          "RowError",
        );
        for (const table of tablesOf(build)) {
          const name = resultType(build, table);
          const register = () =>
            build.registerObjectType(
              name,
              {},
              () => ({ description: RESULT, fields: () => resultFields(build, table) }),
              name,
            );
          build.recoverable(null, register);
          const keyName = uniqueKeyType(build, table);
          const registerKey = () =>
            build.registerEnumType(
              keyName,
              {},
              () => ({ description: "A unique key.", values: keyValues(build, table) }),
              keyName,
            );
          build.recoverable(null, registerKey);
          build.recoverable(null, () => registerUpsertInput(build, table));
        }
        return _;
      },
      GraphQLObjectType_fields(fields, build, { scope, fieldWithHooks }) {
        if (!scope.isRootMutation) return fields;
        let extended = fields;
        for (const table of tablesOf(build)) {
          for (const { name, scope: needed, make } of mutationsOf(build, table)) {
            const isGranted = needed.every((behavior) => build.behavior.pgResourceMatches(table, behavior));
            if (name in extended || !isGranted) continue;
            const field = fieldWithHooks(
              { fieldName: name, fieldBehaviorScope: needed[0]!, pgFieldResource: table },
              make,
            );
            extended = build.extend(extended, { [name]: field }, `Adding ${name} for '${table.name}'`);
          }
        }
        return extended;
      },
    },
  },
};

const ROW_ERROR = "Why a row was rejected.";
const RESULT = "The result of a mutation of many rows. If there are errors, nothing was written.";

const columnNames = (columns: readonly ({ readonly attname: string } | null)[] | null | undefined): readonly string[] =>
  (columns ?? []).flatMap((column) => (column ? [column.attname] : []));

const tablesOf = (build: GraphileBuild.Build): Table[] =>
  (Object.values(build.pgResources) as Table[]).filter(
    (table) =>
      !table.parameters && table.codec.attributes && !table.codec.isAnonymous && hasExtra(build, table, "bulk"),
  );

function mutationsOf(build: GraphileBuild.Build, table: Table): Field[] {
  const { inflection } = build;
  const { isInputObjectType } = build.graphql;
  const type = inflection.tableType(table.codec);
  const name = (verb: string, noun: string) => inflection.camelCase(`${verb}-${noun}`);
  const many = manyRowsOf(build, table);
  const input = build.getGraphQLTypeByPgCodec(table.codec, "input");
  const patch = build.getGraphQLTypeByPgCodec(table.codec, "patch");
  const filterName = inflection.filterType(type);
  const filter = build.getTypeByName(filterName) as any;
  const hasRows = Boolean(build.getTypeByName(type));
  const hasInput = isInputObjectType(input) && Object.keys(input.getFields()).length > 0;
  const hasPatch = isInputObjectType(patch) && Object.keys(patch.getFields()).length > 0;
  const keys = hasInput ? upsertKeys(build, table) : [];
  const mutations: (Field | false)[] = [
    hasInput && { name: name("create", many), scope: ["resource:insert"], make: () => createMany(build, table, input) },
    keys.length > 0 && {
      name: name("upsert", type),
      scope: hasPatch ? ["resource:insert", "resource:update"] : ["resource:insert"],
      make: () => upsert(build, table, patch, keys),
    },
    Boolean(filter && hasPatch) && {
      name: name("update", many),
      scope: ["resource:update"],
      make: () => updateMany(build, table, patch, filter),
    },
    Boolean(filter) && {
      name: name("delete", many),
      scope: ["resource:delete"],
      make: () => deleteMany(build, table, filter),
    },
  ];
  return hasRows ? mutations.filter((mutation): mutation is Field => mutation !== false) : [];
}

/** The rows in the names of mutations. `createStaff` creates one row of a table whose name has no plural, `createManyStaff` many. */
export function manyRowsOf({ inflection }: GraphileBuild.Build, { codec }: Table): string {
  const type = inflection.tableType(codec);
  const plural = inflection.pluralize(type);
  return plural === type ? `many-${type}` : plural;
}

function createMany(build: GraphileBuild.Build, table: Table, input: any) {
  const { GraphQLList, GraphQLNonNull } = build.graphql;
  const max = build.options.maxPageSize ?? 1000;
  return {
    description: "Creates many rows, or none.",
    type: resultOf(build, table),
    args: {
      input: {
        type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(input))),
        description: `At most ${max} rows.`,
      },
    },
    plan: (_$root: unknown, args: any) =>
      write(build, table, [args.getBaked("input")], {
        queriesOf: ([rows]) => {
          checkCount("input", rows.length, 0, max);
          return rows.map((row: any) => writeInsert(table, Object.entries(row)));
        },
        inputsOf: ([rows]) => rows,
      }),
  };
}

type UpsertKey = { readonly name: string; readonly columns: readonly string[] };

/** The unique keys whose columns are all in the input. */
function upsertKeys(build: GraphileBuild.Build, { codec, uniques }: Table): UpsertKey[] {
  const isInInput = (attribute: string) =>
    build.behavior.pgCodecAttributeMatches([codec, attribute], "attribute:insert");
  const keys = uniques
    .filter(({ attributes }: { attributes: readonly string[] }) => attributes.every(isInInput))
    .map(({ attributes, isPrimary }: { attributes: readonly string[]; isPrimary?: boolean }) => ({
      name: isPrimary ? "PRIMARY_KEY" : build.inflection.constantCase(attributes.join("_and_")),
      columns: attributes,
    }));
  // A table that inherits from another one may have the key of that table too.
  return [...new Map<string, UpsertKey>(keys.map((key: UpsertKey) => [key.name, key])).values()];
}

const uniqueKeyType = (build: GraphileBuild.Build, { codec }: Table) => `${build.inflection.tableType(codec)}UniqueKey`;

const keyValues = (build: GraphileBuild.Build, table: Table) =>
  Object.fromEntries(upsertKeys(build, table).map(({ name, columns }) => [name, { value: columns }]));

const upsertInputType = (build: GraphileBuild.Build, { codec }: Table) =>
  build.inflection.upperCamelCase(`upsert-${build.inflection.tableType(codec)}-input`);

/** The input of a new row, but without defaults: a column that the client leaves out keeps its value if there is a row. */
function registerUpsertInput(build: GraphileBuild.Build, table: Table): void {
  const name = upsertInputType(build, table);
  const scope = { pgCodec: table.codec, isInputType: true, isPgRowType: true, isUpsert: true };
  const description = `The columns of one ${build.inflection.tableType(table.codec)}.`;
  const extensions = { grafast: { baked: createObjectAndApplyChildren } };
  build.registerInputObjectType(name, scope, () => ({ description, extensions }), name);
}

function upsert(build: GraphileBuild.Build, table: Table, patch: any, keys: readonly UpsertKey[]) {
  const { GraphQLNonNull, isInputObjectType } = build.graphql;
  const { codec } = table;
  const input = build.getInputTypeByName(upsertInputType(build, table)) as any;
  const fields = isInputObjectType(patch) ? patch.getFields() : {};
  const updatable = new Set(
    Object.keys(codec.attributes).filter(
      (attributeName) => build.inflection.attribute({ codec, attributeName }) in fields,
    ),
  );
  const keyType = build.getInputTypeByName(uniqueKeyType(build, table)) as any;
  return {
    description: "Creates a row, or updates the row that has the same unique key.",
    type: resultOf(build, table),
    args: {
      input: { type: new GraphQLNonNull(input) },
      onConflict: { type: keyType, defaultValue: keys[0]!.columns, description: "The unique key." },
    },
    plan: (_$root: unknown, args: any) =>
      write(build, table, [args.getBaked("input"), args.getRaw("onConflict")], {
        queriesOf: ([row, key]) => writeUpsert(table, Object.entries(row), key ?? keys[0]!.columns, updatable),
        rowsOf: first,
        inputsOf: ([row]) => [row],
      }),
  };
}

function updateMany(build: GraphileBuild.Build, table: Table, patch: any, filter: any) {
  const { GraphQLNonNull } = build.graphql;
  return {
    description: "Updates the rows that match a filter. If more than `limit` rows match, nothing changes.",
    type: resultOf(build, table),
    args: { ...selectionArguments(build, filter), input: { type: new GraphQLNonNull(patch) } },
    plan: (_$root: unknown, args: any) =>
      write(build, table, [...selectionSteps(args, filter), args.getBaked("input")], {
        queriesOf: ([apply, limit, input]) => {
          checkLimit(build, limit);
          return writeUpdate(table, Object.entries(input), { filter: apply, limit });
        },
        rowsOf: matched,
        inputsOf: ([, , input]) => [input],
      }),
  };
}

function deleteMany(build: GraphileBuild.Build, table: Table, filter: any) {
  return {
    description: "Deletes the rows that match a filter. If more than `limit` rows match, nothing changes.",
    type: resultOf(build, table),
    args: selectionArguments(build, filter),
    plan: (_$root: unknown, args: any) =>
      write(build, table, selectionSteps(args, filter), {
        queriesOf: ([apply, limit]) => {
          checkLimit(build, limit);
          return writeDelete(table, { filter: apply, limit });
        },
        rowsOf: matched,
      }),
  };
}

const selectionArguments = ({ graphql: { GraphQLInt, GraphQLNonNull } }: GraphileBuild.Build, filter: any) => ({
  filter: { type: new GraphQLNonNull(filter), description: "Which rows. There must be at least one condition." },
  limit: { type: new GraphQLNonNull(GraphQLInt), description: "How many rows may match at most." },
});

const selectionSteps = (args: any, filter: any): Step[] => [
  applyInput(filter, args.getRaw("filter"), conditionTarget as never) as Step,
  args.getRaw("limit"),
];

const checkLimit = ({ options }: GraphileBuild.Build, limit: number) =>
  checkCount("limit", limit, 0, options.maxPageSize ?? 1000);

function checkCount(name: string, count: number, min: number, max: number): void {
  if (count < min || count > max)
    throw new SafeError(`${name} must be from ${min} to ${max}`, { code: "VALIDATION_ERROR" });
}

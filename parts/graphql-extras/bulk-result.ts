import {
  listOfCodec,
  type PgClientQuery,
  type PgResource,
  pgSelect,
  sideEffectWithPgClient,
  TYPES,
} from "postgraphile/@dataplan/pg";
import { access, context, lambda, list, type Step } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";
import { isOfValue } from "../../db/errors.ts";
import { referenceFault } from "../../db/references.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { InputFault } from "../../db/transaction/input-faults.ts";
import type { BatchClient, BatchResult } from "../../graphql/execute/operation-queries.ts";
import { guarded } from "../../plugins/shape/row-guards.ts";
import { recordOf } from "../../plugins/writes/InputColumnsPlugin.ts";
import type { Problem } from "../../problems/problem.ts";
import { arrayOfRows } from "./writes.ts";

type Table = PgResource<any, any, any, any, any>;
/** The rows that a mutation has written, as text; or why it has written none. */
type Written = {
  readonly rows: readonly string[];
  readonly errors: readonly RowError[] | null;
};
/** `index`: the position of the row in the input, if there are several. */
type RowError = {
  readonly index: number | null;
  readonly field: string | null;
  readonly message: string;
  readonly code: string;
};
type Rows = readonly (readonly (readonly (string | null)[])[])[];

/** The rows that all statements have returned. */
const returned = (rows: Rows): Written => ({ rows: rows.flat().map(([row]) => row!), errors: null });

/** The row that the first of two statements has written, or else the second has read. */
export const first = (rows: Rows): Written => returned([rows.find((ofStatement) => ofStatement.length > 0) ?? []]);

/** The rows of an update or delete, whose first statement counts the rows that match. */
export function matched([[[count]], changed]: any, [, limit]: readonly any[]): Written {
  if (Number(count) <= limit) return returned([changed]);
  const message = `filter matches more than ${limit} rows: nothing was changed`;
  return { rows: [], errors: [{ index: null, field: "filter", message, code: "VALIDATION_ERROR" }] };
}

/** What a mutation does with the values of its arguments. */
export type Write = {
  queriesOf(values: any): PgClientQuery[];
  rowsOf?(rows: Rows, values: readonly any[]): Written;
  /** The rows of the input, by column. */
  inputsOf?(values: any): readonly any[];
};

/** What a mutation may ask about an error. */
type Context = {
  problemOf(error: unknown): Problem | null;
  faultsOf(
    error: unknown,
    table: { schema: string; name: string },
    records: readonly object[],
    failed: number | null,
  ): Promise<readonly InputFault[]>;
};

/** The step of a mutation: runs the statements for the values of the arguments as one transaction. */
export function write(
  build: GraphileBuild.Build,
  table: Table,
  values: readonly Step[],
  { queriesOf, rowsOf = returned, inputsOf = () => [] }: Write,
): Step {
  const $input = list([list(values as Step[]), context() as Step]);
  return sideEffectWithPgClient(table.executor, $input, async (client, [given, asked]: any): Promise<Written> => {
    const queries = queriesOf(given);
    const result: BatchResult =
      queries.length === 0 ? { rows: [] } : await (client as unknown as BatchClient).runTogether(queries);
    if ("rows" in result) return rowsOf(result.rows, given);
    const { problemOf, faultsOf }: Context = asked;
    const problem = problemOf(result.error);
    if (!problem || !REJECTIONS.has(problem.code)) throw result.error;
    const isNew = rowsOf === returned;
    const index = isNew ? (result.index ?? (queries.length === 1 ? 0 : null)) : null;
    const { message, code, more } = problem;
    const named = { index, field: fieldOf(build, table, result.error), message, code: more.own?.code ?? code };
    const records = inputsOf(given).map((input) => recordOf(table.codec, input));
    const { schemaName: schema, name } = table.extensions!.pg!;
    const faults = await faultsOf(result.error, { schema, name }, records, index);
    const errors = rowErrors(build, table, faults, isNew);
    const isNamed = isOfValue(result.error as DatabaseErrorLike)
      ? errors.length > 0
      : errors.some((each) => each.index === index && each.message === named.message);
    return { rows: [], errors: isNamed ? errors : [named, ...errors] };
  }) as unknown as Step;
}

/** One error for each rule and row. Rows that exist already have their own unique values. */
function rowErrors(
  build: GraphileBuild.Build,
  table: Table,
  faults: readonly InputFault[],
  isNew: boolean,
): RowError[] {
  const ofRules = Map.groupBy(faults, ({ record, constraint, column }) => `${record} ${constraint ?? `of ${column}`}`);
  return [...ofRules.values()].flatMap(([{ record, column, message, code }, ...others]: any) => {
    if (!isNew && code === "RESOURCE_CONFLICT") return [];
    const field = others.length === 0 ? fieldOf(build, table, { table: table.extensions!.pg!.name, column }) : null;
    return [{ index: isNew ? record : null, field, message, code }];
  });
}

/** Errors that a row causes. Others, such as a missing permission, are errors of the field. */
const REJECTIONS: ReadonlySet<string> = new Set(["VALIDATION_ERROR", "RESOURCE_CONFLICT"]);

/** The field that an error is about: of the column, or of a constraint on one column. */
function fieldOf(build: GraphileBuild.Build, { codec, extensions }: Table, error: any): string | null {
  const constraints = (extensions as { constraints?: Record<string, readonly string[]> } | undefined)?.constraints;
  // Rows of other tables have no field here.
  if (referenceFault(error) === "used") return null;
  const columns = error.column ? [error.column] : (constraints?.[error.constraint] ?? []);
  const attributeName = columns.length === 1 ? columns[0] : undefined;
  if (error.table !== extensions?.pg?.name || !attributeName || !(attributeName in codec.attributes)) return null;
  return build.inflection.attribute({ codec, attributeName });
}

export const resultOf = (build: GraphileBuild.Build, table: Table) =>
  new build.graphql.GraphQLNonNull(build.getOutputTypeByName(resultType(build, table)) as any);

export function resultFields(build: GraphileBuild.Build, table: Table) {
  const { GraphQLBoolean, GraphQLInt, GraphQLList, GraphQLNonNull, GraphQLString } = build.graphql;
  const type = build.inflection.tableType(table.codec);
  const rowsName = build.inflection.camelCase(build.inflection.pluralize(type));
  const isWritten = ({ errors }: Written) => errors === null;
  return {
    success: {
      description: "Whether the rows were written.",
      type: new GraphQLNonNull(GraphQLBoolean),
      plan: ($written: Step) => lambda($written, isWritten as never),
    },
    message: {
      description: "The outcome, as a sentence.",
      type: GraphQLString,
      plan: ($written: Step) => lambda($written, messageOf as never),
    },
    count: {
      description: "The number of rows written.",
      type: new GraphQLNonNull(GraphQLInt),
      plan: ($written: Step) => lambda($written, (({ rows }: Written) => rows.length) as never),
    },
    [rowsName]: {
      description: "The rows as they were written, or as they were before they were deleted.",
      type: new GraphQLNonNull(new GraphQLList(new GraphQLNonNull(build.getOutputTypeByName(type) as any))),
      plan: ($written: Step) => selectRows(table, $written),
    },
    errors: {
      description: "Why the rows were not written.",
      type: new GraphQLList(new GraphQLNonNull(build.getOutputTypeByName("RowError") as any)),
      plan: ($written: Step) => access($written, "errors"),
    },
  };
}

const messageOf = ({ rows, errors }: Written): string =>
  errors ? errors[0]!.message : `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;

/** Reads the written rows from their text, so that fields and relations can be selected. */
function selectRows(table: Table, $written: Step) {
  const $text = lambda($written, (({ rows }: Written) =>
    arrayOfRows(rows.map((row) => guarded(table.codec, row)))) as never) as Step;
  const index = sql.identifier(Symbol("index"));
  const $rows = pgSelect({
    resource: table as any,
    identifiers: [],
    // Not unnest(…) with ordinality: its rows are not of the type of the table, which functions of a row need.
    from: ({ placeholder }: any) =>
      sql`generate_subscripts(${placeholder}, 1) as ${index}(n) cross join lateral unnest((${placeholder})[${index}.n:${index}.n])`,
    args: [{ step: $text, pgCodec: { ...listOfCodec(table.codec), toPg: (text: unknown) => text } as never }],
  } as never);
  $rows.setTrusted();
  // As they were written, and not by the key.
  $rows.orderBy({ fragment: sql`${index}.n`, codec: TYPES.int, direction: "ASC" } as never);
  $rows.setOrderIsUnique();
  return $rows;
}

export function rowErrorFields({ graphql: { GraphQLInt, GraphQLNonNull, GraphQLString } }: GraphileBuild.Build) {
  return {
    index: { type: GraphQLInt, description: "The position of the row in the input, from 0." },
    field: { type: GraphQLString, description: "The field, if the error is about one." },
    message: { type: new GraphQLNonNull(GraphQLString), description: "The error, as a sentence." },
    code: { type: new GraphQLNonNull(GraphQLString), description: "The code, as in extensions.code." },
  };
}

/** `PostsResult` */
export const resultType = (build: GraphileBuild.Build, { codec }: Table) =>
  build.inflection.upperCamelCase(`${build.inflection.pluralize(build.inflection.tableType(codec))}-result`);

import { PgCondition, sqlValueWithCodec, TYPES } from "postgraphile/@dataplan/pg";
import { ApplyInputStep } from "postgraphile/grafast";
import { type GraphQLInputType, type GraphQLSchema, getArgumentValues, getNamedType } from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import type { KeyPart } from "../../plugins/lists/cursor.ts";
import { keepRecord } from "./call-sql.ts";
import { type Call, type Connection, type List, NotCompiled, type QueryTree, type Row } from "./query-members.ts";
import type { Fragment, ReadArguments } from "./query-sql.ts";

type Variables = Readonly<Record<string, unknown>>;

/** The parts of PostGraphile's query builder that most orders and filters use. */
class Query {
  readonly mode = "normal";
  readonly alias: SQL;
  readonly conditions: SQL[] = [];
  readonly order: KeyPart[] = [];

  constructor(alias: SQL) {
    this.alias = alias;
  }

  where(condition: unknown): void {
    if (!sql.isSQL(condition)) throw new NotCompiled("arguments");
    this.conditions.push(condition);
  }

  orderBy(part: KeyPart): void {
    this.order.push(part);
  }

  setOrderIsUnique(): void {}
}

const BACKWARD = ["last", "before"];
const PAGE: ReadonlySet<string> = new Set(["first", "last", "offset", "before", "after", "orderBy", "limit"]);

/** What the arguments of all fields mean. Throws NotCompiled, also for arguments that are not valid. */
export function argumentsOf(
  { reads }: QueryTree,
  schema: GraphQLSchema,
  variables: Variables,
): readonly ReadArguments[] {
  try {
    return reads.map((read) => {
      const values = getArgumentValues(read.definition, read.nodes[0]!, variables);
      if (read.kind === "call") return callOf(read, schema, values);
      return read.kind === "row" ? keyOf(read, values) : pageOf(read, schema, values);
    });
  } catch (error) {
    // Grafast says what is wrong with an argument, and executes what only PostGraphile's own query builder can do.
    throw error instanceof NotCompiled ? error : new NotCompiled("arguments");
  }
}

function pageOf(read: List | Connection, schema: GraphQLSchema, values: Variables): ReadArguments {
  const { definition, source, alias } = read;
  if (BACKWARD.some((name) => values[name] != null) || values.first === 0) throw new NotCompiled("page");
  const { size, offset, orderBy, order } = source.pageOf(values);
  const rows = new Query(alias);
  for (const { name, type, extensions } of definition.args) {
    const value = values[name];
    if (value == null || PAGE.has(name)) continue;
    if (extensions.condition) extensions.condition(rows as never, value);
    else if (name === "filter") applyFilter(schema, type, rows, value);
    else throw new NotCompiled("arguments");
  }
  const page = new Query(alias);
  order(page as never);
  // Grafast numbers the rows of a connection without an order.
  if (page.order.length === 0 && read.kind === "connection") throw new NotCompiled("page");
  const conditions = rows.conditions.map(fragmentOf);
  const bounds = page.conditions.map(fragmentOf);
  const isAfterCursor = values.after != null;
  const skipped = offset > 0 ? [fragmentOf(sqlValueWithCodec(offset, TYPES.bigint))] : [];
  const texts = [...conditions, ...bounds].map(({ text }) => text);
  const shape = [size, offset > 0, orderBy.join(), isAfterCursor, conditions.length, ...texts].join("\n");
  return { shape, conditions, bounds, skipped, order: page.order, size, isAfterCursor };
}

const NO_PAGE: ReadArguments = {
  shape: "",
  conditions: [],
  bounds: [],
  skipped: [],
  order: [],
  size: 1,
  isAfterCursor: false,
};

function keyOf({ source, alias }: Row, values: Variables): ReadArguments {
  if (!("arguments" in source.from)) return NO_PAGE;
  const conditions = source.from.arguments.map(({ name, attribute, codec }) => {
    const key = codec.toPg(values[name]);
    // The text is not needed: keys always have the same shape.
    return {
      sql: sql`${alias}.${sql.identifier(attribute)} = ${sql.value(key)}::${codec.sqlType}`,
      text: "",
      values: [key],
    };
  });
  return { ...NO_PAGE, conditions };
}

function callOf(call: Call, schema: GraphQLSchema, values: Variables): ReadArguments {
  const statement = fragmentOf(call.source.statementOf(schema, values, keepRecord(call)));
  return { ...NO_PAGE, shape: statement.text, conditions: [statement] };
}

function fragmentOf(fragment: SQL): Fragment {
  const { text, values } = sql.compile(fragment);
  return { sql: fragment, text, values };
}

/** Lets the plugins add the conditions of a filter, as Grafast does. */
function applyFilter(schema: GraphQLSchema, inputType: GraphQLInputType, query: Query, value: unknown): void {
  if (getNamedType(inputType).extensions.grafast?.applyScope) throw new NotCompiled("arguments");
  const step = {
    inputType,
    operationPlan: { schema },
    getTargetFromParent: (parent: Query) => new PgCondition(parent as never),
  };
  const apply = ApplyInputStep.prototype.unbatchedExecute.call(
    step as never,
    {} as never,
    value as never,
    undefined as never,
  );
  apply(query as never);
}

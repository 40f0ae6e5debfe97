import type { PgCodec } from "postgraphile/@dataplan/pg";
import { constant, lambda, SafeError, type Step } from "postgraphile/grafast";
import { type GraphQLFieldConfigArgumentMap, GraphQLList, GraphQLNonNull } from "postgraphile/graphql";
import { allOf, filterOf as columnFilter, negated } from "../../db/filters/condition.ts";
import type { Operator as Comparison } from "../../db/filters/operators.ts";
import type { FilterRequest } from "../../db/rights/filter.ts";
import { writeArray } from "../../db/wire/array-text.ts";
import { nameInFilter } from "../../plugins/lists/FilterOperatorsPlugin.ts";
import { hasExtra } from "../../plugins/shape/TableExtrasPlugin.ts";

/** What an operator requires of a column. `value` is that of the client. */
type Operator = {
  readonly description: string;
  readonly takes: "value" | "list" | "boolean";
  condition(column: string, value: any): FilterRequest;
};

type ConditionOf = Operator["condition"];

const compare =
  (operator: Comparison): ConditionOf =>
  (column, value) =>
    columnFilter(column, operator, String(value));
const isIn: ConditionOf = (column, values) => columnFilter(column, "in", writeArray(values.map(String)));
const isNull: ConditionOf = (column, isWanted) => {
  const condition = { ...columnFilter(column, "is", "null"), keyword: "null" } as const;
  return isWanted ? condition : negated(condition);
};
const not =
  (condition: ConditionOf): ConditionOf =>
  (column, value) =>
    negated(condition(column, value));

const ofValue = (description: string, condition: ConditionOf): Operator => ({ description, takes: "value", condition });

/** The operators of the filters of lists that can be decided for a change. */
const OPERATORS: Readonly<Record<string, Operator>> = {
  isNull: { description: "Is null (true), or is not null (false).", takes: "boolean", condition: isNull },
  equalTo: ofValue("Equal to the value.", compare("eq")),
  notEqualTo: ofValue("Not equal to the value.", not(compare("eq"))),
  distinctFrom: ofValue("Not equal to the value, or null.", compare("isdistinct")),
  notDistinctFrom: ofValue("Equal to the value, and not null.", not(compare("isdistinct"))),
  in: { description: "In the list.", takes: "list", condition: isIn },
  notIn: { description: "Not in the list.", takes: "list", condition: not(isIn) },
  lessThan: ofValue("Less than the value.", compare("lt")),
  lessThanOrEqualTo: ofValue("Less than or equal to the value.", compare("lte")),
  greaterThan: ofValue("Greater than the value.", compare("gt")),
  greaterThanOrEqualTo: ofValue("Greater than or equal to the value.", compare("gte")),
};

const PATTERN_OPERATORS: Readonly<Record<string, Operator>> = {
  ...patterns("like", "Matches the pattern, in which % is any text and _ any character", (pattern) => pattern),
  ...patterns("includes", "Contains the text", (text) => `%${escaped(text)}%`),
  ...patterns("startsWith", "Starts with the text", (text) => `${escaped(text)}%`),
  ...patterns("endsWith", "Ends with the text", (text) => `%${escaped(text)}`),
  ...patterns("matches", "Matches the regular expression", (expression) => expression, "match"),
};

/** `like`, `notLike`, `likeInsensitive` and `notLikeInsensitive` */
function patterns(
  name: string,
  meaning: string,
  pattern: (value: string) => string,
  operator: "like" | "match" = "like",
): Readonly<Record<string, Operator>> {
  const sensitive: ConditionOf = (column, value) => columnFilter(column, operator, pattern(value));
  const insensitive: ConditionOf = (column, value) => columnFilter(column, `i${operator}`, pattern(value));
  const notName = `not${name[0]!.toUpperCase()}${name.slice(1)}`;
  const opposite = `Not: ${meaning[0]!.toLowerCase()}${meaning.slice(1)}`;
  return {
    [name]: ofValue(`${meaning} (case-sensitive).`, sensitive),
    [notName]: ofValue(`${opposite} (case-sensitive).`, not(sensitive)),
    [`${name}Insensitive`]: ofValue(`${meaning} (case-insensitive).`, insensitive),
    [`${notName}Insensitive`]: ofValue(`${opposite} (case-insensitive).`, not(insensitive)),
  };
}

const escaped = (text: string): string => text.replace(/[\\%_]/g, "\\$&");

const operatorsOf = (type: string) => (type === "String" ? { ...OPERATORS, ...PATTERN_OPERATORS } : OPERATORS);

/** Types whose values have no order or no text of their own. */
const WITHOUT_FILTER: ReadonlySet<string> = new Set(["JSON", "TSVector", "KeyValueHash", "Base64EncodedBinary"]);

/** The scope of the types for changes. */
export const IS_OWN = { isOfChanges: true } as never;

/** Whether a type is one for changes, and not that of a table whose name leads to the same. */
export const isOwn = (build: GraphileBuild.Build, name: string): boolean =>
  (build.getTypeMetaByName(name)?.scope as { isOfChanges?: boolean } | undefined)?.isOfChanges === true;

const operatorsTypeName = (type: string) => `Changed${type}Filter`;

/**
 * `ChangedTodoFilter`: conditions on the columns of a row, with which changes can be filtered. It has the operators of the filters of
 * lists, as far as they can be decided for a row that a change contains: `{ status: { in: [TODO, DONE] }, title: { like: "A%" } }`.
 */
export const ChangeFiltersPlugin: GraphileConfig.Plugin = {
  name: "ChangeFiltersPlugin",
  version: "1.0.0",
  after: ["PgConnectionArgFilterPlugin", "PgTablesPlugin"],
  schema: {
    hooks: {
      build: (build) => build.extend(build, { changeFilters: { argumentOf, filterOf } }, "Adding filters of changes"),
      init: {
        after: ["PgCodecs", "PgConnectionArgFilterPlugin", "PgTablesPlugin"],
        callback(_, build) {
          for (const codec of build.allPgCodecs as Iterable<PgCodec<any, any, any, any, any, any, any>>) {
            const table = codec.attributes && build.pgTableResource(codec as any);
            if (table && hasExtra(build, table, "changes")) registerRowFilter(build, codec);
            else if (!codec.attributes) registerOperators(build, codec);
          }
          return _;
        },
      },
    },
  },
};

function registerOperators(build: GraphileBuild.Build, codec: PgCodec): void {
  const type = comparableType(build, codec);
  const name = type && operatorsTypeName(type);
  if (!type || !name || build.getTypeMetaByName(name)) return;
  build.registerInputObjectType(
    name,
    {},
    () => ({
      description: `Conditions on a ${type} of a changed row. All must hold.`,
      fields: () => {
        const value = build.getInputTypeByName(type) as any;
        const types = {
          value,
          list: new GraphQLList(new GraphQLNonNull(value)),
          boolean: build.graphql.GraphQLBoolean,
        };
        return Object.fromEntries(
          Object.entries(operatorsOf(type)).map(([operator, { description, takes }]) => [
            operator,
            { description, type: types[takes] },
          ]),
        );
      },
    }),
    "ChangeFiltersPlugin",
  );
}

function registerRowFilter(build: GraphileBuild.Build, codec: PgCodec): void {
  const type = build.getGraphQLTypeNameByPgCodec(codec, "output");
  if (!type || codec.isAnonymous) return;
  const name = `Changed${type}Filter`;
  if (build.getTypeMetaByName(name)) return;
  build.registerInputObjectType(
    name,
    IS_OWN,
    () => ({
      description: `Conditions on a changed row of ${type}. All must hold.`,
      fields: () => {
        const self = build.getInputTypeByName(name) as any;
        const list = new GraphQLList(new GraphQLNonNull(self));
        const columns = [...filterColumns(build, codec)].map(([field, { type: operators }]) => [
          field,
          { type: build.getInputTypeByName(operators) as any },
        ]);
        return {
          ...Object.fromEntries(columns),
          and: { description: "All of these conditions hold.", type: list },
          or: { description: "One of these conditions holds.", type: list },
          not: { description: "These conditions do not hold.", type: self },
        };
      },
    }),
    "ChangeFiltersPlugin",
  );
}

type FilterColumn = { readonly attribute: string; readonly type: string };
/** By the name of the field. */
type FilterColumns = ReadonlyMap<string, FilterColumn>;

/** The columns that a filter on changes can have. */
export function filterColumns(build: GraphileBuild.Build, codec: any): FilterColumns {
  const columns = new Map<string, FilterColumn>();
  for (const [attributeName, attribute] of Object.entries<any>(codec.attributes)) {
    const may = (behavior: any) =>
      build.behavior.pgCodecAttributeMatches([codec, attributeName] as never, behavior) === true;
    const isShown = attribute.extensions?.canSelect !== false && (may("attribute:select") || may("attribute:filterBy"));
    const type = isShown && comparableType(build, attribute.codec);
    const field = nameInFilter(build.inflection.attribute({ attributeName, codec }));
    if (type) columns.set(field, { attribute: attributeName, type: operatorsTypeName(type) });
  }
  return columns;
}

/** The name of the scalar or enum type that values are compared as: `"ID"`; null if changes cannot be filtered by them. */
function comparableType(build: GraphileBuild.Build, codec: PgCodec): string | null {
  const digest = build.connectionFilterOperatorsDigest!(codec);
  if (!digest || digest.isList || digest.rangeElementInputTypeName || WITHOUT_FILTER.has(digest.inputTypeName))
    return null;
  const { GraphQLScalarType, GraphQLEnumType } = build.graphql;
  const { Constructor } = build.getTypeMetaByName(digest.inputTypeName)!;
  return Constructor === GraphQLScalarType || Constructor === GraphQLEnumType ? digest.inputTypeName : null;
}

/** The argument `filter` of a subscription to a table; none if no column can be compared. */
export function argumentOf(build: GraphileBuild.Build, codec: any): GraphQLFieldConfigArgumentMap {
  const name = `Changed${build.inflection.tableType(codec)}Filter`;
  if (!isOwn(build, name) || filterColumns(build, codec).size === 0) return {};
  const description = "Only changes whose row fulfils these conditions.";
  return { filter: { type: build.getInputTypeByName(name) as any, description } };
}

/** The value of that argument. */
export function filterOf(build: GraphileBuild.Build, codec: any, args: any): Step<FilterRequest | null> {
  if (!("$filter" in args)) return constant(null);
  const columns = filterColumns(build, codec);
  return lambda(args.getRaw("filter") as Step<unknown>, (filter) => filterRequestOf(filter, columns));
}

/**
 * The filter of a client; null if it has no condition. As in the filters of lists, null and an empty object set no condition, and null is
 * not a value of an operator. Throws SafeError.
 */
function filterRequestOf(filter: any, columns: FilterColumns): FilterRequest | null {
  const conditions: FilterRequest[] = [];
  for (const [name, value] of Object.entries<any>(filter ?? {})) {
    if (value == null) continue;
    if (name === "not") {
      const condition = filterRequestOf(value, columns);
      if (condition) conditions.push(negated(condition));
    } else if (name === "and" || name === "or") {
      const parts = value.map((each: any) => filterRequestOf(each, columns)).filter((each: any) => each !== null);
      if (parts.length > 0) conditions.push({ kind: "logic", operator: name, isNegated: false, conditions: parts });
    } else conditions.push(...columnConditions(columns.get(name)!.attribute, value));
  }
  return allOf<string, string | null, never>(conditions);
}

function columnConditions(column: string, operands: any): FilterRequest[] {
  return Object.entries<any>(operands).map(([operator, operand]) => {
    if (operand !== null) return (OPERATORS[operator] ?? PATTERN_OPERATORS[operator])!.condition(column, operand);
    throw new SafeError(`${operator} must not be null: use isNull, or leave out the condition`, {
      code: "VALIDATION_ERROR",
    });
  });
}

import fc from "fast-check";
import type { RunningApplication } from "./application.ts";
import { type Column, orderOf, type Shape } from "./shapes.ts";

/** What to read of a table, in both languages: `id project { name }` and `id,project:tasks_project_id_fkey(name)`. */
type Selection = {
  readonly shape: Shape;
  readonly columns: readonly Column[];
  readonly relations: readonly (Shape["relations"][number] & { readonly part: Selection })[];
};

/** A condition on one column: `{ equalTo: "done" }` and `eq.done`. */
type Condition = { readonly column: Column; readonly filter: object; readonly url: string };

export type Question = {
  readonly selection: Selection;
  readonly condition: Condition | null;
  readonly order: { readonly column: Column; readonly direction: "ASC" | "DESC" } | null;
  readonly first: number;
  readonly offset: number;
  readonly withCount: boolean;
};

/** What both answer: the rows, and their number if it is a part of the question. Or the code of the error of GraphQL, and the status of REST. */
type Answers = { readonly graphql: unknown; readonly rest: unknown };

const MAX_ROWS = 1000;

/** Random questions about the tables. */
export function questions(shapes: readonly Shape[]): fc.Arbitrary<Question> {
  const byName = new Map(shapes.map((shape) => [`${shape.schema}.${shape.name}`, shape]));
  const selection = (shape: Shape, depth: number): fc.Arbitrary<Selection> => {
    const related =
      depth === 0
        ? fc.constant([])
        : fc
            .subarray([...shape.relations], { maxLength: Math.min(2, shape.relations.length) })
            .chain((chosen) =>
              fc.tuple(
                ...chosen.map((relation) =>
                  selection(byName.get(relation.target)!, depth - 1).map((part) => ({ ...relation, part })),
                ),
              ),
            );
    return fc
      .tuple(fc.subarray([...shape.columns], { minLength: 1 }), related)
      .map(([columns, relations]) => ({ shape, columns, relations }));
  };
  return fc.constantFrom(...shapes).chain((shape) =>
    fc.record({
      selection: selection(shape, 3),
      condition: fc.option(conditionOn(shape)),
      order: fc.option(orderBy(shape)),
      first: fc.integer({ min: 1, max: 40 }),
      offset: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5 })),
      withCount: fc.boolean(),
    }),
  );
}

const orderBy = (shape: Shape) =>
  fc.record({
    column: fc.constantFrom(...shape.columns.filter(({ name }) => shape.orders.has(orderOf(name)))),
    direction: fc.constantFrom("ASC" as const, "DESC" as const),
  });

function conditionOn(shape: Shape): fc.Arbitrary<Condition> {
  const all = shape.columns.flatMap((column) => {
    const has = (operator: string) => !column.isList && shape.operators.get(column.field)?.includes(operator) === true;
    const { samples } = column;
    const value = (text: string) => inputOf(column, text);
    const list = (texts: readonly string[]) => `in.(${texts.map((text) => `"${text.replace(/["\\]/g, "\\$&")}"`)})`;
    return [
      ...(has("isNull") ? [{ column, filter: { isNull: true }, url: "is.null" }] : []),
      ...(has("in") && samples.length > 0
        ? [{ column, filter: { in: samples.slice(0, 3).map(value) }, url: list(samples.slice(0, 3)) }]
        : []),
      ...samples.flatMap((text) => [
        ...(has("equalTo") ? [{ column, filter: { equalTo: value(text) }, url: `eq.${text}` }] : []),
        ...(has("notEqualTo") ? [{ column, filter: { notEqualTo: value(text) }, url: `neq.${text}` }] : []),
        ...(has("lessThan") ? [{ column, filter: { lessThan: value(text) }, url: `lt.${text}` }] : []),
      ]),
    ];
  });
  return all.length === 0 ? fc.constant(null as never) : fc.constantFrom(...all);
}

function inputOf({ scalar, isNumber, isExact }: Column, text: string): unknown {
  if (scalar === "Boolean") return text === "true";
  if (scalar === "Time") return new Date(text).toISOString();
  if (scalar === "JSON") return JSON.parse(text);
  return isNumber && !isExact && scalar !== "ID" ? Number(text) : text;
}

export function graphqlOf({ selection, condition, order, first, offset, withCount }: Question): string {
  const { shape } = selection;
  const orders = [...(order ? [orderOf(order.column.name, order.direction)] : []), ...keyOrders(shape)];
  const variables = condition ? `query ($filter: ${shape.filter}) ` : "";
  const filter = condition ? ", filter: $filter" : "";
  const count = withCount && offset === 0 ? "totalCount " : "";
  return `${variables}{ ${shape.field}(first: ${first}, offset: ${offset}, orderBy: [${orders}]${filter}) { ${count}edges { node { ${fieldsOf(selection)} } } } }`;
}

const keyOrders = ({ key }: Shape) => key.map(({ name }) => orderOf(name));

const fieldsOf = ({ columns, relations }: Selection): string =>
  [
    ...columns.map(({ field }) => field),
    ...relations.map(({ field, isMany, part }) =>
      isMany
        ? `${field}(limit: ${MAX_ROWS}, orderBy: [${keyOrders(part.shape)}]) { ${fieldsOf(part)} }`
        : `${field} { ${fieldsOf(part)} }`,
    ),
  ].join(" ");

const selectOf = ({ columns, relations }: Selection): string =>
  [
    ...columns.map(({ field, name, isExact, isList }) => `${field}:${name}${isExact && !isList ? "::text" : ""}`),
    ...relations.map(({ field, rest, part }) => `${field}:${rest}(${selectOf(part)})`),
  ].join(",");

const nestedOrders = ({ relations }: Selection): readonly string[] =>
  relations.flatMap(({ field, isMany, part }) => [
    ...(isMany ? [`${field}.order=${part.shape.key.map(({ name }) => name)}`] : []),
    ...nestedOrders(part).map((order) => `${field}.${order}`),
  ]);

export function restOf({ selection, condition, order, first, offset }: Question): string {
  const { name, key } = selection.shape;
  const orders = [
    ...(order ? [`${order.column.name}.${order.direction.toLowerCase()}`] : []),
    ...key.filter((column) => column !== order?.column).map((column) => column.name),
  ];
  const parameters = [
    `select=${selectOf(selection)}`,
    `order=${orders}`,
    `limit=${first}`,
    `offset=${offset}`,
    ...nestedOrders(selection),
    ...(condition ? [`${condition.column.name}=${encodeURIComponent(condition.url)}`] : []),
  ];
  return `${name}?${parameters.join("&")}`;
}

/** Asks both. The rows of REST get the types that the scalars of GraphQL have in JSON. */
export async function ask(application: RunningApplication, question: Question, claims?: object): Promise<Answers> {
  const { selection, condition, withCount, offset } = question;
  const variables = { filter: condition && { [condition.column.field]: condition.filter } };
  const { data, errors } = await application.gql(graphqlOf(question), claims, { variables });
  const headers = {
    "accept-profile": selection.shape.schema,
    ...(withCount && offset === 0 && { prefer: "count=exact" }),
  };
  const { status, json, headers: answered } = await application.rest(restOf(question), claims, { headers });
  const list = data?.[selection.shape.field];
  const graphql = errors
    ? { codes: errors.map(({ extensions, message }) => `${extensions.code}: ${message}`) }
    : { rows: list.edges.map(({ node }: any) => shown(selection, node)), count: list.totalCount };
  const total = answered.get("content-range")?.split("/")[1];
  const rest =
    status >= 300
      ? { status, json }
      : {
          rows: json.map((row: any) => shown(selection, row)),
          count: total === undefined || total === "*" ? undefined : Number(total),
        };
  return { graphql, rest };
}

function shown(selection: Selection, row: any): unknown {
  if (row === null) return null;
  return Object.fromEntries([
    ...selection.columns.map((column) => [column.field, shownValue(column, row[column.field])]),
    ...selection.relations.map(({ field, isMany, part }) => [
      field,
      isMany ? row[field].map((each: any) => shown(part, each)) : shown(part, row[field]),
    ]),
  ]);
}

function shownValue(column: Column, value: any): unknown {
  if (value === null) return null;
  if (column.isList) return value.map((each: any) => shownValue({ ...column, isList: false }, each));
  if (column.scalar === "Time") return new Date(value).toISOString();
  if (column.scalar === "ID" || column.isExact) return String(value);
  return value;
}

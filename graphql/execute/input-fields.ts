import {
  type ASTNode,
  coerceInputValue,
  type DocumentNode,
  type GraphQLError,
  type GraphQLSchema,
  getNamedType,
  getOperationAST,
  isInputType,
  isScalarType,
  Kind,
  TypeInfo,
  typeFromAST,
  type ValueNode,
  visit,
  visitWithTypeInfo,
} from "postgraphile/graphql";
import type { FieldFault } from "./errors.ts";

type Path = readonly (string | number)[];
type Variables = Readonly<Record<string, unknown>>;

/** What an error of graphql-js says about a field that its value or node does not have. */
const OF_FIELD = /^Field "(?:\w+\.)?(\w+)" (?:of required type|is not defined)/;

/**
 * Adds `extensions.fields` to errors about literals of a document: `createOrder(input: { total: "x" })` → `total`,
 * `orders(filter: { total: { equalTo: "x" } })` → `filter.total.equalTo`.
 */
export function nameLiterals(errors: readonly GraphQLError[], document: DocumentNode, schema: GraphQLSchema): void {
  const places = placesIn(document);
  const refused = errors.some(({ nodes }) => !nodes) ? refusedLiterals(document, schema) : null;
  for (const error of errors) {
    const node = error.nodes?.[0] ?? refused?.get(error.message);
    const place = places.values.get(node);
    if (place) nameField(error, place, error.message);
  }
}

/** The literals that scalars refuse, by message: graphql-js does not add the node to an error that a scalar throws. */
function refusedLiterals(document: DocumentNode, schema: GraphQLSchema): ReadonlyMap<string, ASTNode> {
  const types = new TypeInfo(schema);
  const found = new Map<string, ASTNode>();
  const enter = (node: ASTNode) => {
    const type = LITERALS.has(node.kind) ? getNamedType(types.getInputType()) : undefined;
    if (!isScalarType(type)) return;
    try {
      type.parseLiteral(node as ValueNode);
    } catch (error) {
      found.set((error as Error).message, node);
    }
  };
  visit(document, visitWithTypeInfo(types, { enter }));
  return found;
}

const LITERALS: ReadonlySet<string> = new Set([Kind.STRING, Kind.INT, Kind.FLOAT, Kind.BOOLEAN, Kind.ENUM]);

/** The same for the errors of variables, all of which graphql-js reports in order: `$input.total` → `total`. */
export function nameVariables(
  errors: readonly GraphQLError[],
  { document, operationName, variables = {} }: VariablesOfOperation,
  schema: GraphQLSchema,
): void {
  const places = placesIn(document).variables;
  const faults = faultsOf(document, operationName, variables, schema);
  for (const [i, error] of errors.entries()) {
    const fault = faults[i];
    if (!fault || !error.message.endsWith(fault.message)) return;
    nameField(error, [...(places.get(fault.variable) ?? [fault.variable]), ...fault.path], fault.message);
  }
}

type VariablesOfOperation = {
  readonly document: DocumentNode;
  readonly operationName: string | undefined;
  readonly variables: Variables | undefined;
};

export const isOfVariable = ({ message, path }: GraphQLError): boolean =>
  path === undefined && message.startsWith('Variable "$');

function nameField(error: GraphQLError, place: Path, message: string): void {
  const named = OF_FIELD.exec(message)?.[1];
  const path = named === undefined ? place : [...place, named];
  const field: FieldFault = { field: textOf(path), code: "VALIDATION_ERROR", message };
  error.extensions.fields = [field];
}

/** `["filter", "or", 1, "total"]` → `filter.or[1].total`. The argument `input` is left out before its fields. */
const textOf = ([argument, ...path]: Path): string =>
  [...(argument === "input" && path.length > 0 ? [] : [argument!]), ...path].reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : text === "" ? part : `${text}.${part}`),
    "",
  );

type Places = {
  readonly values: ReadonlyMap<unknown, Path>;
  /** The first use of each variable. */
  readonly variables: ReadonlyMap<string, Path>;
};

/** Where the values of arguments are in a document. */
function placesIn(document: DocumentNode): Places {
  const values = new Map<unknown, Path>();
  const variables = new Map<string, Path>();
  const add = (value: ValueNode, path: Path): void => {
    values.set(value, path);
    if (value.kind === Kind.VARIABLE && !variables.has(value.name.value)) variables.set(value.name.value, path);
    if (value.kind === Kind.LIST) for (const [i, item] of value.values.entries()) add(item, [...path, i]);
    if (value.kind !== Kind.OBJECT) return;
    for (const field of value.fields) {
      // An unknown field is named by the message.
      values.set(field, path);
      add(field.value, [...path, field.name.value]);
    }
  };
  visit(document, {
    Argument({ name, value }) {
      add(value, [name.value]);
    },
  });
  return { values, variables };
}

type VariableFault = { readonly variable: string; readonly path: Path; readonly message: string };

/** As getVariableValues of graphql-js finds them. */
function faultsOf(
  document: DocumentNode,
  operationName: string | undefined,
  variables: Variables,
  schema: GraphQLSchema,
): readonly VariableFault[] {
  const { variableDefinitions = [] } = getOperationAST(document, operationName)!;
  const faults: VariableFault[] = [];
  for (const { variable, type: written, defaultValue } of variableDefinitions) {
    const type = typeFromAST(schema, written as never);
    const name = variable.name.value;
    if (!isInputType(type)) continue;
    const isRequired = written.kind === Kind.NON_NULL_TYPE;
    if (!Object.hasOwn(variables, name)) {
      if (isRequired && !defaultValue)
        faults.push({ variable: name, path: [], message: `of required type "${type}" was not provided.` });
      continue;
    }
    if (variables[name] === null && isRequired) {
      faults.push({ variable: name, path: [], message: `of non-null type "${type}" must not be null.` });
      continue;
    }
    coerceInputValue(variables[name], type, (path, _value, { message }) =>
      faults.push({ variable: name, path, message }),
    );
  }
  return faults;
}

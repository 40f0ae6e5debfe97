import type { PgCodec } from "postgraphile/@dataplan/pg";
import { bakedInputRuntime } from "postgraphile/grafast";
import {
  type DocumentNode,
  type ExecutionResult,
  type FieldNode,
  type GraphQLError,
  type GraphQLInputObjectType,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  getOperationAST,
  getVariableValues,
  isInputObjectType,
  Kind,
  type SelectionSetNode,
} from "postgraphile/graphql";
import { camelCase } from "../../config/setting-types.ts";
import { type Catalog, type Table, type TableName, tableOf } from "../../db/catalog/catalog.ts";
import { messagesFor } from "../../db/catalog/exposure.ts";
import { isOfValue, problemOf } from "../../db/errors.ts";
import { referenceFault } from "../../db/references.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import { columnsOfError, faultsOfError, faultsOfRefused, type Input } from "../../db/transaction/input-faults.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import { recordOf } from "../../plugins/writes/InputColumnsPlugin.ts";
import { causeOf, type FieldFault } from "./errors.ts";
import type { Operation } from "./operation.ts";

export type CallerContext = {
  readonly schema: GraphQLSchema;
  readonly identity: Identity;
  readonly catalog: Catalog;
  readonly transactions: Pick<Transactions, "run">;
};

/** What mutations may ask about an error, as part of the context of Grafast. */
export const writeContext = (
  { identity, catalog, transactions }: Omit<CallerContext, "schema">,
  anonymous: boolean,
) => ({
  problemOf: (error: unknown) => {
    const { role, refused } = identity.caller;
    return problemOf(error, { ...messagesFor(catalog, role), anonymous, refused });
  },
  faultsOf: async (error: DatabaseErrorLike, name: TableName, records: Input["records"], failed: number | null) => {
    const table = tableOf(catalog, name);
    const input = table && { table, records, key: null, failed };
    return input ? faultsOfRefused(error, input, identity, { catalog, transactions }) : [];
  },
});

/** SQLSTATEs of values that a type refuses, and of constraints: NOT NULL, foreign keys, unique, CHECK, exclusion. */
const OF_INPUT = /^2[23]/;

/**
 * Adds the fields to the errors of mutations whose input the database refuses: every value that a type refuses, or every rule of the
 * table that the input violates, not only the first one.
 */
export async function withFields(
  result: ExecutionResult,
  operation: Operation,
  context: CallerContext,
): Promise<ExecutionResult> {
  for (const error of result.errors ?? []) {
    const cause = causeOf(error) as DatabaseErrorLike;
    if (!OF_INPUT.test(cause.code ?? "")) continue;
    const node = fieldOf(error, operation);
    const given = node ? givenTo(node, operation, context.schema) : [];
    const fields = await fieldsOf(cause, given, context);
    if (fields.length > 0) Object.assign(error.extensions, { fields });
  }
  return result;
}

/** The arguments of a field. */
type Given = { readonly name: string; readonly type: GraphQLInputObjectType; readonly value: unknown };

async function fieldsOf(
  cause: DatabaseErrorLike,
  given: readonly Given[],
  context: CallerContext,
): Promise<readonly FieldFault[]> {
  const { constraints } = context.catalog;
  const message = messageFor(cause, context);
  const row = rowIn(given, context);
  if (isOfValue(cause)) return row === null ? [] : faultsOfRow(cause, row, context);
  if (row === null || !isAbout(cause, row, constraints)) {
    if (referenceFault(cause) === "used") return [];
    const named = faultsOfError(cause, message, constraints);
    return named
      .map(({ column, ...fault }) => faultOf(camelCase(column), fault))
      .filter(({ field }) => given.some((each) => each.name === field));
  }
  const violated = await faultsOfRow(cause, row, context);
  const first = faultsOfError(cause, message, constraints);
  const known = new Set(violated.map(({ constraint }) => constraint ?? null));
  const others = first.filter(({ constraint }) => !known.has(constraint));
  // The database may have filled the other columns of the rule.
  others.sort((one, other) => Number(other.column in row.record) - Number(one.column in row.record));
  return [...violated, ...others.map(({ column, ...fault }) => faultOf(fieldNameOf(row.type, column), fault))];
}

async function faultsOfRow(cause: DatabaseErrorLike, { table, type, record, key }: Row, context: CallerContext) {
  const input = { table, records: [record], key, failed: 0 };
  const faults = await faultsOfRefused(cause, input, context.identity, context);
  return faults.map(({ column, ...fault }) => faultOf(fieldNameOf(type, column), fault));
}

/** Whether an error is about a row of this table: if other rows refer to it, about a column that the input changes. */
const isAbout = (cause: DatabaseErrorLike, { table, record }: Row, constraints: Catalog["constraints"]): boolean =>
  referenceFault(cause) === "used"
    ? isSame(constraints.get(`${cause.schema}.${cause.table}.${cause.constraint}`)?.references, table) &&
      columnsOfError(cause, constraints).some((column) => column in record)
    : isSame({ schema: cause.schema, name: cause.table }, table);

const isSame = (one: Partial<TableName> | null | undefined, { schema, name }: Table): boolean =>
  one?.schema === schema && one.name === name;

type Fault = Omit<ReturnType<typeof faultsOfError>[number], "column">;

const faultOf = (field: string, { message, code, constraint }: Fault): FieldFault => ({
  ...{ field, message, code },
  ...(constraint !== null && { constraint }),
});

function messageFor(cause: DatabaseErrorLike, { catalog, identity: { caller } }: CallerContext): string {
  if (cause.column !== undefined) return `${camelCase(cause.column)} must not be null`;
  return problemOf(cause, { ...messagesFor(catalog, caller.role), anonymous: false, refused: null })!.message;
}

/** The arguments of the field that has failed, as the client has sent them. */
function givenTo(node: FieldNode, operation: Operation, schema: GraphQLSchema): readonly Given[] {
  const { document, operationName, variables } = operation;
  const definition = getOperationAST(document, operationName)!;
  const field = definition.operation === "mutation" && schema.getMutationType()?.getFields()[node.name.value];
  if (!field) return [];
  const { coerced = {} } = getVariableValues(schema, definition.variableDefinitions ?? [], variables ?? {});
  const values = getArgumentValues(field, node, coerced);
  return field.args.map(({ name, type }) => ({
    ...{ name, type: getNamedType(type) as GraphQLInputObjectType },
    value: values[name],
  }));
}

function fieldOf({ path = [] }: GraphQLError, { document, operationName }: Operation): FieldNode | null {
  return fieldAt(String(path[0]), getOperationAST(document, operationName)!.selectionSet, document);
}

/** An argument that is a row of a table. */
type Row = {
  readonly table: Table;
  readonly type: GraphQLInputObjectType;
  readonly record: Readonly<Record<string, unknown>>;
  /** The primary key, if other arguments name it. */
  readonly key: Readonly<Record<string, string>> | null;
};

function rowIn(given: readonly Given[], { catalog, schema }: CallerContext): Row | null {
  for (const { type, value } of given) {
    const table = tableNameOf(type) && tableOf(catalog, tableNameOf(type)!);
    if (table && typeof value === "object" && value !== null && !Array.isArray(value))
      return { table, type, record: recordIn(type, value, schema), key: keyOf(table, given) };
  }
  return null;
}

const tableNameOf = (type: unknown) =>
  isInputObjectType(type) ? (type.extensions.table as { schema: string; name: string } | undefined) : undefined;

const recordIn = (type: GraphQLInputObjectType, value: object, schema: GraphQLSchema) =>
  recordOf(type.extensions.tableCodec as PgCodec, bakedInputRuntime(schema, type, value) as Record<string, unknown>);

function keyOf({ primaryKey }: Table, given: readonly Given[]): Row["key"] {
  const values = primaryKey.map((column) => [column, given.find(({ name }) => name === camelCase(column))?.value]);
  const isKnown = values.length > 0 && values.every(([, value]) => value !== undefined);
  return isKnown ? Object.fromEntries(values.map(([column, value]) => [column, String(value)])) : null;
}

const fieldNameOf = (type: GraphQLInputObjectType, column: string): string =>
  Object.values(type.getFields()).find(({ extensions }) => extensions.column === column)?.name ?? camelCase(column);

/** The field with this key of the response, in fragments too. */
function fieldAt(key: string, { selections }: SelectionSetNode, document: DocumentNode): FieldNode | null {
  for (const selection of selections) {
    if (selection.kind === Kind.FIELD) {
      if ((selection.alias ?? selection.name).value === key) return selection;
      continue;
    }
    const fragment =
      selection.kind === Kind.INLINE_FRAGMENT
        ? selection
        : document.definitions.find(
            (each) => each.kind === Kind.FRAGMENT_DEFINITION && each.name.value === selection.name.value,
          );
    const found = fragment && "selectionSet" in fragment && fieldAt(key, fragment.selectionSet!, document);
    if (found) return found;
  }
  return null;
}

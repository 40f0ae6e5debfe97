import {
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  isNonNullType,
  Kind,
  type OperationDefinitionNode,
  type OperationTypeNode,
  TypeInfo,
  visit,
  visitWithTypeInfo,
} from "postgraphile/graphql";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Attributes } from "../../telemetry/span.ts";
import type { DocumentCache, DocumentReference, DocumentStore } from "./document.ts";
import { refuseLargeVariables, refuseManyValues } from "./document-size.ts";

type Variables = Readonly<Record<string, unknown>>;

/** A GraphQL request, over any transport. */
export type GraphQLRequest = DocumentReference & {
  readonly variables: Variables | undefined;
  readonly operationName: string | undefined;
  /** The position after which the events of a subscription begin; null to begin now. */
  readonly after: string | null;
  /** Whether the response to a query has the position after which changes follow it. */
  readonly wantsPosition: boolean;
  /** The position of a write that a query must see, whichever server answers. */
  readonly readsAfter: string | undefined;
  /** Whether only the primary server may answer. */
  readonly read: "primary" | null;
};

/** A checked request: the operation can be executed. */
export type Operation = GraphQLRequest & {
  readonly document: DocumentNode;
  /** The number of fields in the document. */
  readonly fields: number;
  /** Whether the document reads the schema. */
  readonly introspects: boolean;
  /** Null for an operation without a name. */
  readonly name: string | null;
  readonly kind: "query" | "mutation" | "subscription";
  /** Whether a failed field ends the operation: it is a mutation, and the failure makes all of `data` null. */
  readonly stopsAfterFailure: boolean;
};

/** Source of the names: OpenTelemetry, "Semantic conventions for GraphQL server spans". */
export const attributesOf = ({ kind, name }: Operation): Attributes => ({
  "graphql.operation.type": kind,
  ...(name !== null && { "graphql.operation.name": name }),
});

export type PreparedOperation = Operation | { readonly errors: readonly GraphQLError[] };

/** Checks the document and the variables of a request and selects its operation. */
export function prepareOperation(
  request: GraphQLRequest,
  schema: GraphQLSchema,
  documents: DocumentCache,
  store: DocumentStore,
): PreparedOperation {
  const text = findDocument(store, request);
  if (typeof text !== "string") return { errors: [text] };
  const checked = documents.check(text);
  if ("errors" in checked) return checked;
  const { document, sizes, values, introspects, fields } = checked;
  const definition = getOperationAST(document, request.operationName);
  if (!definition) return { errors: [unknownOperation(request.operationName)] };
  if (!schema.getRootType(definition.operation)) return { errors: [noSuchOperations(definition.operation)] };
  try {
    const { variables = {} } = request;
    refuseLargeVariables(sizes.get(definition)!, variables, documents.limits);
    refuseManyValues(values, variables);
  } catch (error) {
    if (error instanceof GraphQLError) return { errors: [error] };
    throw error;
  }
  const errors = findNullErrors(schema, document, definition, request.variables);
  if (errors.length > 0) return { errors };
  const kind = definition.operation;
  const stopsAfterFailure = kind === "mutation" && hasOnlyNonNullFields(schema, definition);
  return { ...request, document, fields, introspects, name: definition.name?.value ?? null, kind, stopsAfterFailure };
}

function findDocument(store: DocumentStore, request: GraphQLRequest): string | GraphQLError {
  try {
    return store.find(request);
  } catch (error) {
    if (error instanceof GraphQLError) return error;
    throw error;
  }
}

const MAX_NAME_IN_MESSAGE = 100;

function unknownOperation(name: string | undefined): GraphQLError {
  const message =
    name === undefined
      ? "the document has several operations: select one with operationName"
      : `the document has no operation named "${name.slice(0, MAX_NAME_IN_MESSAGE)}"`;
  return new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });
}

/** If callers may not write anything, the schema has no mutations. Validation passes, since there are no fields to check. */
const noSuchOperations = (kind: OperationTypeNode) =>
  new GraphQLError(`the schema has no ${kind === "query" ? "queries" : `${kind}s`}`, {
    extensions: { code: "VALIDATION_ERROR" },
  });

/**
 * Finds nulls that neither validation nor coercion rejects: `$id: ID = 1` is valid where ID! is expected, unless the
 * client sends null for it. Grafast notices this only while planning and reports it as an internal error.
 */
function findNullErrors(
  schema: GraphQLSchema,
  document: DocumentNode,
  { variableDefinitions = [] }: OperationDefinitionNode,
  variables: Variables = {},
): readonly GraphQLError[] {
  const nulls = new Set(
    variableDefinitions
      .filter(({ type, defaultValue }) => defaultValue !== undefined && type.kind !== Kind.NON_NULL_TYPE)
      .map(({ variable }) => variable.name.value)
      .filter((name) => variables[name] === null),
  );
  if (nulls.size === 0) return [];

  const errors: GraphQLError[] = [];
  const types = new TypeInfo(schema);
  visit(
    document,
    visitWithTypeInfo(types, {
      Variable(node) {
        const type = types.getInputType();
        if (!nulls.has(node.name.value) || !isNonNullType(type)) return;
        const message = `Variable "$${node.name.value}" must not be null: it is used where ${type} is expected.`;
        errors.push(new GraphQLError(message, { nodes: node, extensions: { code: "VALIDATION_ERROR" } }));
      },
    }),
  );
  return errors;
}

function hasOnlyNonNullFields(schema: GraphQLSchema, { selectionSet }: OperationDefinitionNode): boolean {
  const fields = schema.getMutationType()!.getFields();
  return selectionSet.selections.every(
    (selection) => selection.kind === Kind.FIELD && isNonNullType(fields[selection.name.value]?.type),
  );
}

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

import {
  type DocumentNode,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  getVariableValues,
  isNonNullType,
  type OperationDefinitionNode,
} from "postgraphile/graphql";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Statement, Transactions } from "../../db/transaction/transaction.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { countKeptSql } from "../execute/document.ts";
import type { Operation } from "../execute/operation.ts";
import { mayHaveMoreRows, parameterOf } from "../execute/operation-queries.ts";
import { isMarked } from "./column-json.ts";
import { argumentsOf } from "./query-arguments.ts";
import { type Member, NotCompiled, type QueryTree, type ReadMember, type Reason } from "./query-members.ts";
import { type QueryStatement, statementOf } from "./query-sql.ts";
import { conditionVariables, treeOf } from "./query-tree.ts";

/** Maximum number of statements kept per operation. Each page size and form of a filter needs its own; clients use few. */
const MAX_STATEMENTS = 8;
/** Maximum number of trees kept per operation. Each combination of values of the variables in its directives needs its own. */
const MAX_TREES = 4;

/** Called for each execution of a query that is left to Grafast. */
type OnLeft = (reason: Reason) => void;

/** A statement, and the fields that it reads. `call` precedes it in a mutation. */
export type CompiledStatement = Statement & { readonly tree: QueryTree; readonly call: Statement | null };

type Compiled = { readonly tree: QueryTree | NotCompiled; readonly statements: Map<string, QueryStatement | null> };
type Known = {
  readonly conditionVariables: readonly string[];
  readonly byCondition: Map<string, Compiled>;
  /** Characters of the statements that are kept. */
  characters: number;
};

/**
 * Compiles a query whose fields are columns, rows and lists of rows to one SQL statement that returns the JSON of the response, and a
 * mutation that calls one function or writes one row to two. Grafast executes every other operation.
 */
export class CompiledQueries {
  readonly #schema: GraphQLSchema;
  readonly #known = new WeakMap<OperationDefinitionNode, Known>();
  readonly #onLeft: OnLeft;

  constructor(schema: GraphQLSchema, onLeft: OnLeft) {
    this.#schema = schema;
    this.#onLeft = onLeft;
  }

  /** Null for an operation that Grafast has to execute: also one whose variables or arguments are not valid. */
  statementOf(operation: Operation): CompiledStatement | null {
    try {
      return this.#compile(operation);
    } catch (error) {
      if (!(error instanceof NotCompiled)) throw error;
      if (operation.kind === "query") this.#onLeft(error.reason);
      return null;
    }
  }

  #compile({ document, variables, operationName }: Operation): CompiledStatement {
    const operation = getOperationAST(document, operationName)!;
    const { coerced } = getVariableValues(this.#schema, operation.variableDefinitions ?? [], variables ?? {});
    if (!coerced) throw new NotCompiled("arguments");
    const known = this.#knownOf(operation, document);
    const condition = known.conditionVariables.map((name) => coerced[name]).join();
    const { tree, statements } = keep<Compiled>(known.byCondition, condition, MAX_TREES, () => ({
      tree: treeOrReason(() => treeOf(this.#schema, document, operation, coerced)),
      statements: new Map(),
    }));
    if (tree instanceof NotCompiled) throw tree;
    const given = argumentsOf(tree, this.#schema, coerced);
    const shape = given.map((each) => each.shape).join("\0");
    const isNew = !statements.has(shape);
    const statement = keep(statements, shape, MAX_STATEMENTS, () => statementOf(tree, given));
    if (isNew) reportSize(operation, known);
    if (!statement) throw new NotCompiled("arguments");
    const values = statement.conditions.flatMap(({ read, list, index }) => given[read]![list][index]!.values);
    const parameters = values.map(parameterOf);
    const { text, call } = statement;
    if (call === null) return { text, values: parameters, binary: true, tree, call };
    return { text, values: [], binary: true, tree, call: { text: call, values: parameters } };
  }

  #knownOf(operation: OperationDefinitionNode, document: DocumentNode): Known {
    const known = this.#known.get(operation);
    if (known !== undefined) return known;
    const made = { conditionVariables: conditionVariables(document), byCondition: new Map(), characters: 0 };
    this.#known.set(operation, made);
    return made;
  }
}

function treeOrReason(made: () => QueryTree): QueryTree | NotCompiled {
  try {
    return made();
  } catch (error) {
    if (error instanceof NotCompiled) return error;
    throw error;
  }
}

function keep<T>(kept: Map<string, T>, key: string, max: number, made: () => T): T {
  const known = kept.get(key);
  if (known !== undefined) return known;
  const value = made();
  if (kept.size >= max) kept.clear();
  kept.set(key, value);
  return value;
}

function reportSize(operation: OperationDefinitionNode, known: Known): void {
  const kept = [...known.byCondition.values()].flatMap(({ statements }) => [...statements.values()]);
  const characters = kept.reduce((sum, each) => sum + (each ? each.text.length + (each.call?.length ?? 0) : 0), 0);
  countKeptSql(operation, characters - known.characters);
  known.characters = characters;
}

export type CompiledOptions = {
  readonly transactions: Pick<Transactions, "run">;
  readonly identity: Identity;
  /** Maximum number of rows in the result. */
  readonly maxRows: number;
  readonly signal: CancelSignal | undefined;
  readonly onLeft: OnLeft;
};

/**
 * The result, with `data` as JSON text. Null if Grafast has to execute the operation after all: the result contains a value that is not
 * allowed; or the statement itself is at fault, of which Grafast makes one for each of several fields. Any other error fails every field.
 */
export async function executeCompiled(
  statement: CompiledStatement,
  options: CompiledOptions,
): Promise<ExecutionResult | null> {
  if (statement.call !== null) return executeCall(statement.call, statement, options);
  const { transactions, identity, maxRows, signal, onLeft } = options;
  try {
    const [result] = await transactions.run(identity, [statement], { snapshot: true, isRead: true, signal });
    const json = result!.rows[0]![0]!;
    const reason = isMarked(json) ? "value" : mayHaveMoreRows(json, maxRows) ? "rows" : null;
    if (reason === null) return { data: json.toString() as never };
    onLeft(reason);
  } catch (error) {
    const { tree } = statement;
    if (isOneField(tree) || !isOfStatement(error as DatabaseErrorLike)) return failed(tree, error as Error);
    onLeft("error");
  }
  return null;
}

/** The record is read with what deferred triggers do to others. */
const DEFERRED: Statement = { text: "set constraints all immediate", values: [] };

/** Writes and reads the record, in one transaction. Null if that cannot be read: nothing has been written. */
async function executeCall(
  call: Statement,
  read: CompiledStatement,
  { transactions, identity, signal }: CompiledOptions,
): Promise<ExecutionResult | null> {
  let completed = -1;
  const onCompleted = (index: number) => {
    completed = index;
  };
  try {
    const options = { unlimitedResult: true, signal, onCompleted };
    const [, , result] = await transactions.run(identity, [call, DEFERRED, read], options);
    return { data: result!.rows[0]![0]!.toString() as never };
  } catch (error) {
    const isUnreadable = completed === 1 && isOfStatement(error as DatabaseErrorLike);
    return isUnreadable ? null : failed(read.tree, error as Error);
  }
}

/** SQLSTATE classes of errors in the statement itself: cardinality, data, privileges and names, and errors that a function raises. */
const STATEMENT_CLASSES: ReadonlySet<string | undefined> = new Set(["21", "22", "42", "P0"]);

const isOfStatement = ({ code }: DatabaseErrorLike): boolean => STATEMENT_CLASSES.has(code?.slice(0, 2));

/** Whether Grafast would also send a single statement. It counts the rows of a connection with a second one. */
function isOneField({ members }: QueryTree): boolean {
  const [read, ...others] = members.filter(isRead);
  const counts = read?.kind === "connection" && read.members.some(({ kind }) => kind === "totalCount");
  return others.length === 0 && !counts;
}

const isRead = (member: Member): member is Member & ReadMember => "definition" in member;

/** Every field of the query that reads rows has failed with this error. */
function failed({ members }: QueryTree, error: Error): ExecutionResult {
  const reads = members.filter(isRead);
  // What follows a field that makes all of `data` null is not in the response.
  const fatal = reads.findIndex(({ definition }) => isNonNullType(definition.type));
  const errors = (fatal < 0 ? reads : reads.slice(0, fatal + 1)).map(
    ({ key, nodes }) => new GraphQLError(error.message, { nodes, path: [key], originalError: error }),
  );
  if (fatal >= 0) return { data: null, errors };
  const values = members.map((member) => [member.key, member.kind === "constant" ? member.text : null]);
  return { data: JSON.stringify(Object.fromEntries(values)) as never, errors };
}

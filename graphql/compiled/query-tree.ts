import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isNonNullType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  visit,
} from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import type { RowSource, RowsSource } from "../../plugins/shape/FieldSourcesPlugin.ts";
import { type Json, jsonOfColumn } from "./column-json.ts";

type Definition = GraphQLField<unknown, unknown>;

/** A member of an object in the response. `key` is its name there. */
export type Member = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "column"; readonly attribute: string; readonly json: Json }
  | Row
  | List
  | Connection
);
export type Row = Read<"row", RowSource> & { readonly isNonNull: boolean; readonly members: readonly Member[] };
export type List = Read<"list", RowsSource> & { readonly members: readonly Member[] };
export type Connection = Read<"connection", RowsSource> & { readonly members: readonly ConnectionMember[] };

export type ConnectionMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "edges"; readonly members: readonly EdgeMember[] }
  | { readonly kind: "pageInfo"; readonly members: readonly PageInfoMember[] }
  | { readonly kind: "totalCount" }
);
export type EdgeMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "node"; readonly members: readonly Member[] }
  | { readonly kind: "cursor" }
);
export type PageInfoMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: PageInfoField }
);
type PageInfoField = "hasNextPage" | "hasPreviousPage" | "startCursor" | "endCursor";

/** A field that reads rows. The values of its arguments differ from request to request. */
type Read<Kind, Source> = {
  readonly kind: Kind;
  readonly source: Source;
  readonly alias: SQL;
  readonly definition: Definition;
  readonly nodes: readonly FieldNode[];
  /** Its place among all such fields of the operation. */
  readonly index: number;
};
export type ReadMember = Row | List | Connection;

/** An operation that is one statement. */
export type QueryTree = { readonly members: readonly Member[]; readonly reads: readonly ReadMember[] };

type Variables = Readonly<Record<string, unknown>>;

/**
 * Why Grafast executes a query: a field of another kind, a type that Postgres writes differently, an interface or union, edges twice, an
 * alias that is too long, a fragment on another type, another directive, a backward or empty page, arguments that only PostGraphile can
 * apply or that are not valid, a value that the result may not have, many rows, or a statement that the database refuses.
 */
export type Reason =
  | "field"
  | "type"
  | "interface"
  | "edges"
  | "alias"
  | "fragment"
  | "directive"
  | "page"
  | "arguments"
  | "value"
  | "rows"
  | "error";

/** Thrown for a query that Grafast has to execute. */
export class NotCompiled extends Error {
  readonly reason: Reason;
  constructor(reason: Reason) {
    super(reason);
    this.reason = reason;
  }
}

const PAGE_INFO: ReadonlySet<string> = new Set<PageInfoField>([
  "hasNextPage",
  "hasPreviousPage",
  "startCursor",
  "endCursor",
]);
/** In bytes. Postgres cuts longer names. */
const MAX_KEY = 63;

/** The variables that decide which fields an operation has. */
export function conditionVariables(document: DocumentNode): readonly string[] {
  const found = new Set<string>();
  visit(document, {
    Directive({ arguments: given = [] }) {
      for (const { value } of given) if (value.kind === Kind.VARIABLE) found.add(value.name.value);
    },
  });
  return [...found];
}

/** The query as a tree of what its fields read. Throws NotCompiled, such as for a field that is not in FieldSourcesPlugin. */
export function treeOf(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  variables: Variables,
): QueryTree {
  const fragments = new Map(
    document.definitions.flatMap((each) =>
      each.kind === Kind.FRAGMENT_DEFINITION ? [[each.name.value, each] as const] : [],
    ),
  );
  const builder = new TreeBuilder(fragments, variables);
  if (operation.directives?.length) throw new NotCompiled("directive");
  const members = builder.members(schema.getQueryType()!, [operation.selectionSet]);
  if (builder.reads.length === 0) throw new NotCompiled("field");
  return { members, reads: builder.reads };
}

/** A field of an object, with the selections of all places that select it. */
type Selected = { readonly key: string; readonly name: string; readonly nodes: readonly FieldNode[] };

class TreeBuilder {
  readonly reads: ReadMember[] = [];
  #count = 0;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #variables: Variables;

  constructor(fragments: ReadonlyMap<string, FragmentDefinitionNode>, variables: Variables) {
    this.#fragments = fragments;
    this.#variables = variables;
  }

  members(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): Member[] {
    return this.#fieldsOf(type, selections, (selected) => {
      // Introspection has no definition here.
      const definition = type.getFields()[selected.name];
      const source = definition?.extensions.source;
      if (!definition || !source) throw new NotCompiled("field");
      if (source.kind !== "column") return this.#read(source, definition, selected);
      if (selected.nodes[0]!.arguments?.length) throw new NotCompiled("arguments");
      const json = jsonOfColumn(source.codec, definition.type);
      if (!json) throw new NotCompiled("type");
      return { key: selected.key, kind: "column", attribute: source.attribute, json };
    });
  }

  #read(source: RowSource | RowsSource, definition: Definition, { key, nodes }: Selected): Member {
    const type = getNamedType(definition.type);
    if (!isObjectType(type)) throw new NotCompiled("interface");
    const index = this.#count++;
    const alias = sql.identifier(Symbol(source.table.name));
    const read = { key, alias, definition, nodes, index };
    const selections = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
    const member = this.#readOf(read, source, type, selections, isNonNullType(definition.type));
    this.reads[index] = member;
    return member;
  }

  #readOf(
    read: Pick<ReadMember, "alias" | "definition" | "nodes" | "index"> & { readonly key: string },
    source: RowSource | RowsSource,
    type: GraphQLObjectType,
    selections: readonly SelectionSetNode[],
    isNonNull: boolean,
  ): Member & ReadMember {
    if (source.kind === "connection")
      return { ...read, kind: source.kind, source, members: this.#connection(type, selections) };
    const members = this.members(type, selections);
    return source.kind === "row"
      ? { ...read, kind: source.kind, source, isNonNull, members }
      : { ...read, kind: source.kind, source, members };
  }

  #connection(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): ConnectionMember[] {
    const members = this.#fieldsOf<ConnectionMember>(type, selections, ({ key, name, nodes }) => {
      if (nodes[0]!.arguments?.length) throw new NotCompiled("arguments");
      const own = nodes.flatMap(({ selectionSet }) => selectionSet ?? []);
      const memberType = getNamedType(type.getFields()[name]!.type) as GraphQLObjectType;
      if (name === "edges") return { key, kind: name, members: this.#edge(memberType, own) };
      if (name === "pageInfo") return { key, kind: name, members: this.#pageInfo(memberType, own) };
      if (name === "totalCount") return { key, kind: name };
      throw new NotCompiled("field");
    });
    // The rows are read once.
    if (members.filter(({ kind }) => kind === "edges").length > 1) throw new NotCompiled("edges");
    return members;
  }

  #edge(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): EdgeMember[] {
    return this.#fieldsOf<EdgeMember>(type, selections, ({ key, name, nodes }) => {
      if (name === "cursor") return { key, kind: name };
      if (name !== "node") throw new NotCompiled("field");
      const node = getNamedType(type.getFields().node!.type);
      if (!isObjectType(node)) throw new NotCompiled("interface");
      return {
        key,
        kind: name,
        members: this.members(
          node,
          nodes.flatMap(({ selectionSet }) => selectionSet ?? []),
        ),
      };
    });
  }

  #pageInfo(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): PageInfoMember[] {
    return this.#fieldsOf<PageInfoMember>(type, selections, ({ key, name }) => {
      if (!PAGE_INFO.has(name)) throw new NotCompiled("field");
      return { key, kind: name as PageInfoField };
    });
  }

  /** Source: GraphQL specification, 6.3.2, CollectFields. */
  #fieldsOf<T extends { readonly key: string }>(
    type: GraphQLObjectType,
    selections: readonly SelectionSetNode[],
    memberOf: (selected: Selected) => T,
  ): (T | { key: string; kind: "constant"; text: string })[] {
    const nodes = new Map<string, FieldNode[]>();
    for (const selection of selections) this.#collect(type, selection, nodes);
    return [...nodes].map(([key, all]) => {
      const name = all[0]!.name.value;
      if (Buffer.byteLength(key) > MAX_KEY) throw new NotCompiled("alias");
      return name === "__typename" ? { key, kind: "constant", text: type.name } : memberOf({ key, name, nodes: all });
    });
  }

  #collect(type: GraphQLObjectType, { selections }: SelectionSetNode, nodes: Map<string, FieldNode[]>): void {
    for (const selection of selections) {
      if (!this.#isIncluded(selection)) continue;
      if (selection.kind === Kind.FIELD) {
        const key = (selection.alias ?? selection.name).value;
        const others = nodes.get(key);
        if (others) others.push(selection);
        else nodes.set(key, [selection]);
        continue;
      }
      const fragment = selection.kind === Kind.INLINE_FRAGMENT ? selection : this.#fragments.get(selection.name.value)!;
      const condition = fragment.typeCondition?.name.value;
      if (condition !== undefined && condition !== type.name) throw new NotCompiled("fragment");
      this.#collect(type, fragment.selectionSet, nodes);
    }
  }

  #isIncluded({ directives = [] }: Pick<FieldNode, "directives">): boolean {
    return directives.every(({ name, arguments: given = [] }) => {
      const argument = given.find((each) => each.name.value === "if")?.value;
      const value =
        argument?.kind === Kind.VARIABLE
          ? this.#variables[argument.name.value]
          : argument?.kind === Kind.BOOLEAN
            ? argument.value
            : undefined;
      if (typeof value !== "boolean") throw new NotCompiled("directive");
      if (name.value === "include") return value;
      if (name.value === "skip") return !value;
      throw new NotCompiled("directive");
    });
  }
}

import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isListType,
  isNonNullType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  visit,
} from "postgraphile/graphql";
import { sql } from "postgraphile/pg-sql2";
import {
  type CallSource,
  type RecordSource,
  type RowSource,
  type RowsSource,
  sourceOf,
} from "../../plugins/shape/FieldSourcesPlugin.ts";
import { jsonOfColumn } from "./column-json.ts";
import {
  type Call,
  type ConnectionMember,
  type Definition,
  type EdgeMember,
  type Member,
  NotCompiled,
  type PageInfoField,
  type PageInfoMember,
  type QueryTree,
  type ReadMember,
  type Row,
} from "./query-members.ts";

type Variables = Readonly<Record<string, unknown>>;

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
  const isMutation = operation.operation === "mutation";
  const root = isMutation ? schema.getMutationType()! : schema.getQueryType()!;
  const members = builder.members(root, [operation.selectionSet]);
  const { reads } = builder;
  if (reads.length === 0) throw new NotCompiled("field");
  if (isMutation) refuseOther(members, reads);
  return { members, reads };
}

/**
 * Refuses what is not one write with a small result: several fields, each of which is a transaction of its own; lists, whose size could
 * undo the write; and a result without columns, which callers may ask for who may write and not read.
 */
function refuseOther(members: readonly Member[], reads: readonly ReadMember[]): void {
  if (members.filter(({ kind }) => kind !== "constant").length > 1) throw new NotCompiled("field");
  if (reads.some(({ kind }) => kind === "list" || kind === "connection")) throw new NotCompiled("rows");
  if (reads[0]!.members.every(({ kind }) => kind === "constant")) throw new NotCompiled("field");
}

/** A field of an object, with the selections of all places that select it. */
type Selected = { readonly key: string; readonly name: string; readonly nodes: readonly FieldNode[] };

const selectionsOf = (nodes: readonly FieldNode[]) => nodes.flatMap(({ selectionSet }) => selectionSet ?? []);

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
      const source = definition && sourceOf(definition);
      if (!source) throw new NotCompiled("field");
      if (source.kind === "record") return this.#record(source, definition, selected);
      if (source.kind !== "column") return this.#read(source, definition, selected);
      if (selected.nodes[0]!.arguments?.length) throw new NotCompiled("arguments");
      const json = jsonOfColumn(source.codec, definition.type);
      if (!json) throw new NotCompiled("type");
      return { key: selected.key, kind: "column", attribute: source.attribute, json };
    });
  }

  #record(source: RecordSource, { args, type }: Definition, { key, nodes }: Selected): Member {
    const record = getNamedType(type);
    if (!isObjectType(record)) throw new NotCompiled("interface");
    if (args.length > 0) throw new NotCompiled("arguments");
    const alias = sql.identifier(Symbol(source.codec.name));
    const nullable = getNullableType(type);
    const isItemNonNull = isListType(nullable) && isNonNullType(nullable.ofType);
    const members = this.members(record, selectionsOf(nodes));
    return { key, kind: "record", source, alias, isItemNonNull, members };
  }

  #read(source: RowSource | RowsSource | CallSource, definition: Definition, { key, nodes }: Selected): Member {
    const type = getNamedType(definition.type);
    if (!isObjectType(type)) throw new NotCompiled("interface");
    const index = this.#count++;
    const alias = sql.identifier(Symbol(source.kind === "call" ? source.codec.name : source.table.name));
    const read = { key, alias, definition, nodes, index };
    const selections = selectionsOf(nodes);
    const member = this.#readOf(read, source, type, selections, isNonNullType(definition.type));
    this.reads[index] = member;
    return member;
  }

  #readOf(
    read: Pick<ReadMember, "alias" | "definition" | "nodes" | "index"> & { readonly key: string },
    source: RowSource | RowsSource | CallSource,
    type: GraphQLObjectType,
    selections: readonly SelectionSetNode[],
    isNonNull: boolean,
  ): Member & ReadMember {
    if (source.kind === "connection")
      return { ...read, kind: source.kind, source, members: this.#connection(type, selections) };
    const members = this.members(type, selections);
    if (source.kind === "list") return { ...read, kind: source.kind, source, members };
    return { ...read, source, isNonNull, members, kind: source.kind } as (Row | Call) & { readonly key: string };
  }

  #connection(type: GraphQLObjectType, selections: readonly SelectionSetNode[]): ConnectionMember[] {
    const members = this.#fieldsOf<ConnectionMember>(type, selections, ({ key, name, nodes }) => {
      if (nodes[0]!.arguments?.length) throw new NotCompiled("arguments");
      const own = selectionsOf(nodes);
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
      return { key, kind: name, members: this.members(node, selectionsOf(nodes)) };
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

import fc from "fast-check";

/** A GraphQL request. */
export type Request = { readonly query: string; readonly variables?: Readonly<Record<string, unknown>> };

/** Fields of a type: those without a selection, and those that lead to another type. */
export type Shape = {
  readonly leaves: readonly string[];
  readonly rows?: Readonly<Record<string, string>>;
  readonly lists?: Readonly<Record<string, string>>;
  readonly connections?: Readonly<Record<string, string>>;
};

/** What random operations are made of. */
export type Vocabulary = {
  readonly kind: "query" | "mutation";
  readonly shapes: Readonly<Record<string, Shape>>;
  /** The types of the root fields. */
  readonly roots: Partial<Pick<Shape, "rows" | "lists" | "connections">>;
  /** Of root fields that are rows, by name; by default a key. */
  readonly args?: Readonly<Record<string, fc.Arbitrary<Arguments>>>;
  readonly filters?: Readonly<Record<string, readonly object[]>>;
  readonly cursors?: readonly string[];
};

const some = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 2, nil: undefined });
const typed = <T>(type: string, value: fc.Arbitrary<T>) => some(fc.tuple(fc.constant(type), value));
export type Arguments = Readonly<Record<string, [type: string, value: unknown] | undefined>>;
/** A field with its arguments and what is selected of it. `place` is where the selection is written. */
type Field = {
  name: string;
  alias: boolean;
  condition: string;
  place: number;
  args: Arguments;
  of: Field[] | null;
  type: string;
};
const field = (
  name: string,
  type: string,
  args: fc.Arbitrary<Arguments>,
  of: fc.Arbitrary<Field[] | null>,
): fc.Arbitrary<Field> =>
  fc.record({
    name: fc.constant(name),
    type: fc.constant(type),
    alias: fc.boolean(),
    condition: fc.constantFrom("", "", "", "", " @include(if: $yes)", " @skip(if: $no)", " @skip(if: true)"),
    place: fc.nat(3),
    args,
    of,
  });
const leaf = (name: string) => field(name, "", fc.constant({}), fc.constant(null));
const fields = (of: readonly fc.Arbitrary<Field>[], type: string) =>
  fc.array(fc.oneof(...of), { minLength: 1, maxLength: 4 }).map((all) => all.map((each) => ({ ...each, type })));

/** Random operations of such fields, with aliases, fragments, directives and variables. */
export function operations({
  kind,
  shapes,
  roots,
  args = {},
  filters = {},
  cursors = [""],
}: Vocabulary): fc.Arbitrary<Request> {
  const narrowing = (type: string) => ({
    offset: typed("Int", fc.constantFrom(0, 0, 1, 2, 3, -1)),
    filter: typed(
      type === "Article" ? "ArticleFilterInput" : `${type}Filter`,
      fc.constantFrom(null, ...filters[type]!),
    ),
    orderBy: typed(
      `[${type}OrderBy!]`,
      fc.constantFrom(null, [], ["ID_DESC"], ["PRIMARY_KEY_ASC"], ["ID_ASC", "ID_DESC"]),
    ),
  });
  const listArguments = (type: string) =>
    fc.record({ limit: typed("Int", fc.constantFrom(0, 1, 2, 4, 7, 5000)), ...narrowing(type) });
  const pageArguments = (type: string) =>
    fc.record({
      first: typed("Int", fc.constantFrom(null, 0, 1, 2, 3, 7, 5000)),
      after: fc.option(
        fc.tuple(
          fc.constant("String"),
          fc.nat(20).map((i) => cursors[i % cursors.length]!),
        ),
        { freq: 1, nil: undefined },
      ),
      ...narrowing(type),
    });

  function membersOf(type: string, depth: number): fc.Arbitrary<Field[]> {
    const { leaves, ...nested } = shapes[type]!;
    return fields([...["__typename", ...leaves].map(leaf), ...(depth > 0 ? readsOf(nested, depth) : [])], type);
  }
  function readsOf(
    { rows = {}, lists = {}, connections = {} }: Partial<Shape>,
    depth: number,
    isRoot = false,
  ): fc.Arbitrary<Field>[] {
    const key = fc.record({ id: fc.tuple(fc.constant("ID!"), fc.constantFrom("1", "2", "3", "8", "99", "abc")) });
    return [
      ...Object.entries(rows).map(([name, type]) =>
        field(name, type, isRoot ? (args[name] ?? key) : fc.constant({}), membersOf(type, depth - 1)),
      ),
      ...Object.entries(lists).map(([name, type]) =>
        field(name, type, listArguments(type), membersOf(type, depth - 1)),
      ),
      ...Object.entries(connections).map(([name, type]) =>
        field(name, type, pageArguments(type), connectionOf(type, depth - 1)),
      ),
    ];
  }
  function connectionOf(type: string, depth: number): fc.Arbitrary<Field[]> {
    const own = (name: string, of: fc.Arbitrary<Field[] | null>) => field(name, "", fc.constant({}), of);
    const node = own("node", membersOf(type, depth));
    const info = ["hasNextPage", "hasPreviousPage", "startCursor", "endCursor", "__typename"].map(leaf);
    return fields(
      [
        own("edges", fields([node, node, leaf("cursor"), leaf("__typename")], `${type}Edge`)),
        own("pageInfo", fields(info, "PageInfo")),
        leaf("totalCount"),
      ],
      `${type}Connection`,
    );
  }

  return fc
    .tuple(
      fc.array(fc.oneof(...readsOf(roots, 2, true)), { minLength: 1, maxLength: 2 }),
      fc.record({ yes: fc.boolean(), no: fc.boolean() }),
    )
    .map(([selected, given]) => requestOf(kind, selected, given));
}

/** Writes an operation: arguments as variables, selections in place or in fragments. */
function requestOf(kind: Vocabulary["kind"], roots: readonly Field[], given: { yes: boolean; no: boolean }): Request {
  const variables: Record<string, unknown> = { ...given };
  const types: string[] = [];
  const fragments: string[] = [];
  let number = 0;
  const argument = ([name, value]: [string, [string, unknown] | undefined]) => {
    if (!value) return [];
    const variable = `v${number++}`;
    types.push(`$${variable}: ${value[0]}`);
    variables[variable] = value[1];
    return [`${name}: $${variable}`];
  };
  const write = ({ name, alias, condition, place, args, of, type }: Field): string => {
    const given = Object.entries(args).flatMap(argument);
    const own = of ? ` { ${of.map(write).join(" ")} }` : "";
    const text = `${alias ? `a${number++}: ` : number++ % 2 === 0 || given.length > 0 || of ? `b${number}: ` : ""}${name}${given.length > 0 ? `(${given.join(", ")})` : ""}${condition}${own}`;
    if (place === 1) return `... on ${type} { ${text} }`;
    if (place === 2) return `...${condition} { ${text} }`;
    if (place !== 3) return text;
    fragments.push(`fragment F${fragments.length} on ${type} { ${text} }`);
    return `...F${fragments.length - 1}`;
  };
  const body = roots.map((root) => write({ ...root, type: kind === "query" ? "Query" : "Mutation" })).join(" ");
  const text = [`{ ${body} }`, ...fragments].join("\n");
  for (const name of Object.keys(given)) if (text.includes(`$${name})`)) types.push(`$${name}: Boolean!`);
  return { query: `${kind} ${types.length > 0 ? `(${types.join(", ")}) ` : ""}${text}`, variables };
}

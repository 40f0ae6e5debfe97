import { byType, type Cell, each, type Fault, type Zoo } from "./zoo.ts";

const TYPES = `{ __schema { types { name kind fields { name type { ...Type } } inputFields { name type { ...Type } } enumValues { name } } } }
  fragment Type on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } }`;

/** The type of a value in GraphQL, and its JSON. */
export type Spelling = readonly [type: string, json: string];

const nameOf = ({ kind, name, ofType }: any): string =>
  kind === "NON_NULL" ? `${nameOf(ofType)}!` : kind === "LIST" ? `[${nameOf(ofType)}]` : name;
export const namedIn = (type: any): string => (type.ofType ? namedIn(type.ofType) : type.name);

/** The types of the schema, by their fields. */
export async function readTypes({ graphql }: Zoo) {
  const { data } = await graphql(TYPES);
  const types = new Map<string, any>(data.__schema.types.map((type: any) => [type.name, type]));
  const fieldIn = (type: string, name: string, list = "inputFields") =>
    types.get(type)?.[list]?.find((field: any) => field.name === name);
  /** `{ start { value inclusive } end { value inclusive } }` */
  const selectionOf = (type: string): string => {
    const fields = types.get(type)?.kind === "OBJECT" ? types.get(type).fields : [];
    return fields.length === 0
      ? ""
      : `{ ${fields.map((field: any) => `${field.name} ${selectionOf(namedIn(field.type))}`).join(" ")} }`;
  };
  return { types, fieldIn, selectionOf };
}

/** What GraphQL does differently: values that are lost, that cannot be written or found as they were read, or page on. Adds to `spellings`. */
export async function* graphqlFaults(zoo: Zoo, spellings: Map<string, Spelling>): AsyncGenerator<Fault> {
  const { types, fieldIn, selectionOf } = await readTypes(zoo);
  const faults: Fault[] = [];
  await each(byType(zoo.cells), async (group) => {
    const [{ type, column }] = group as [Cell];
    const fault = (what: string, cell: Cell, saw: unknown) => void faults.push([`GraphQL ${what}`, cell, saw]);
    const field = fieldIn("Cage", column, "fields");
    if (!field) return group.forEach((cell) => void fault("field", cell, "none"));
    const isOrdered = types
      .get("CageOrderBy")
      .enumValues.some(({ name }: any) => name === `${column.toUpperCase()}_ASC`);
    const ids = group.map(({ id }) => id);
    const list = `filter: { id: { in: [${ids}] } }, orderBy: [${isOrdered ? `${column.toUpperCase()}_ASC` : "ID_ASC"}]`;
    const read = await zoo.graphql(
      `{ cages(${list}, first: 1000) { edges { cursor node { id ${column} ${selectionOf(namedIn(field.type))} } } } }`,
    );
    const edges: any[] = read.data?.cages?.edges ?? [];
    const idOf = ({ node }: any) => Number(node.id);
    const valueIn = (cell: Cell) => edges.find((edge) => idOf(edge) === cell.id)?.node[column];
    const sorted = await zoo.sql(
      `select id from cages where id in (${ids}) order by ${isOrdered ? `${column}, ` : ""}id`,
    );
    if (!isOrdered || String(edges.map(idOf)) !== String(sorted.map(({ id }) => id)))
      for (const cell of group) fault("order", cell, isOrdered ? edges.map(idOf) : "none");
    for (const [i, edge] of edges.entries()) {
      const next = await zoo.graphql(
        `{ cages(${list}, first: 1, after: ${JSON.stringify(edge.cursor)}) { edges { node { id } } } }`,
      );
      const found = next.data?.cages.edges.map(idOf);
      if (String(found) !== String(edges.slice(i + 1, i + 2).map(idOf)))
        fault("page", group.find(({ id }) => id === idOf(edge))!, next.errors ?? found);
    }
    const example = valueIn(group[0]!);
    spellings.set(type, [nameOf(field.type), JSON.stringify(example ?? null)]);
    const input = fieldIn("CreateCageInput", column);
    const filter = fieldIn(namedIn(fieldIn("CageFilter", column)?.type ?? {}), "equalTo");
    for (const cell of group) {
      const value = valueIn(cell);
      const at = edges.findIndex((edge) => idOf(edge) === cell.id);
      const error = read.errors?.find(({ path }: any) => JSON.stringify(path[2]) === String(at));
      if ((value == null && cell.json !== "null") || error) fault("read", cell, error ?? "null");
      const variables = { value };
      const made =
        input &&
        (await zoo.graphql(
          `mutation ($value: ${nameOf(input.type)}) { createCage(input: { ${column}: $value }) { id } }`,
          variables,
        ));
      const wrong = made?.data ? await zoo.compare(cell, made.data.createCage.id) : (made?.errors ?? "no input");
      if (wrong !== null) fault("write", cell, wrong);
      const query =
        filter &&
        `query ($value: ${nameOf(filter.type)}) { cages(filter: { ${column}: { equalTo: $value }, id: { lessThanOrEqualTo: ${zoo.cells.length} } }, first: 1000) { edges { node { id } } } }`;
      const found = filter && (await zoo.graphql(query, variables));
      const finds = found?.data?.cages.edges.map(idOf) ?? [];
      if (!finds.includes(cell.id) || String(finds) !== String(await zoo.equal(cell)))
        fault("filter", cell, found?.errors ?? (filter ? finds : "no equalTo"));
    }
  });
  yield* faults;
}

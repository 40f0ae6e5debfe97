import { type SQL, sql } from "postgraphile/pg-sql2";
import { digestOf, type KeyPart } from "../../plugins/lists/cursor.ts";
import { keptRecord, unlessMarked } from "./call-sql.ts";
import { markJson } from "./column-json.ts";
import {
  type Call,
  type Connection,
  type ConnectionMember,
  callIn,
  type EdgeMember,
  type List,
  type Member,
  type PageInfoMember,
  type QueryTree,
  type ReadMember,
  type Records,
  type Row,
} from "./query-members.ts";

/** SQL with values of the request. */
export type Fragment = { readonly sql: SQL; readonly text: string; readonly values: readonly unknown[] };

/** What the arguments of a field mean. */
export type ReadArguments = {
  /** Equal for arguments that lead to the same SQL. */
  readonly shape: string;
  /** Which rows there are. */
  readonly conditions: readonly Fragment[];
  /** Which of them are on the page. */
  readonly bounds: readonly Fragment[];
  /** The number of rows before the page, if there are any. */
  readonly skipped: readonly Fragment[];
  readonly order: readonly KeyPart[];
  readonly size: number;
  readonly isAfterCursor: boolean;
};

/**
 * The statement of a query. `conditions` are those whose values are its parameters, in order. In a mutation they are those of `call`,
 * the statement before it.
 */
export type QueryStatement = {
  readonly text: string;
  readonly call: string | null;
  readonly conditions: readonly ConditionPlace[];
};
export type ConditionPlace = {
  readonly read: number;
  readonly list: "conditions" | "bounds" | "skipped";
  readonly index: number;
};

/**
 * The SQL that returns the JSON of a query, in one row of one column.
 *
 *   select row_to_json("{}") from (select (select row_to_json("{}") from (select … from public.posts …) as "{}") as "post") as "{}"
 *
 * Null if a plugin uses one parameter in several conditions.
 */
export function statementOf(tree: QueryTree, given: readonly ReadArguments[]): QueryStatement | null {
  const writer = new StatementWriter(given);
  const call = callIn(tree);
  if (call) {
    const written = sql.compile(writer.call(call)).text;
    return { text: sql.compile(unlessMarked(writer.statement(tree))).text, call: written, conditions: writer.places };
  }
  const { text, values } = sql.compile(writer.statement(tree));
  const expected = writer.places.flatMap(({ read, list, index }) => given[read]![list][index]!.values);
  const isInOrder = values.length === expected.length && values.every((value, i) => value === expected[i]);
  return isInOrder ? { text, call: null, conditions: writer.places } : null;
}

const and = (conditions: readonly SQL[]): SQL =>
  conditions.length === 0
    ? sql.blank
    : sql`\n  where ${sql.join(
        conditions.map((each) => sql`(${each})`),
        " and ",
      )}`;

const named = (value: SQL, key: string): SQL => sql`${value} as ${sql.identifier(key)}`;
const list = (values: readonly SQL[]): SQL => sql.join([...values], ", ");
const lines = (values: readonly SQL[]): SQL => sql.join([...values], ",\n  ");
/** Rows as JSON. Their alias is a name that no field can have: `row_to_json(a)` would be the value of a field named a. */
const objects = (members: readonly SQL[], from: SQL): SQL =>
  sql`select row_to_json("{}") from (\nselect ${lines(members)}${from}) as "{}"`;
const objectOf = (members: readonly SQL[], from: SQL = sql.blank): SQL => sql`(${objects(members, from)})`;
const arrayOf = (members: readonly SQL[], from: SQL): SQL => sql`array_to_json(array(${objects(members, from)}))`;

/** The record as a row. NULL is none; a record of nulls is one. */
const recordOf = (record: SQL, alias: SQL): SQL =>
  sql`unnest(case when ${record} is distinct from null then array[${record}] end) as ${alias}`;

/** Writes the SQL from left to right: `places` are in the order of the parameters. */
class StatementWriter {
  readonly places: ConditionPlace[] = [];
  readonly #known = new Set<Fragment>();
  readonly #given: readonly ReadArguments[];

  constructor(given: readonly ReadArguments[]) {
    this.#given = given;
  }

  statement({ members }: QueryTree): SQL {
    return objects(this.#members(members, null), sql.blank);
  }

  call({ index }: Call): SQL {
    return this.#placed(index, "conditions")[0]!;
  }

  #members(members: readonly Member[], row: SQL | null): SQL[] {
    return members.map((member) => named(this.#valueOf(member, row), member.key));
  }

  #valueOf(member: Member, row: SQL | null): SQL {
    switch (member.kind) {
      case "constant":
        return constant(member.text);
      case "column":
        return member.json(sql`${row!}.${sql.identifier(member.attribute)}`);
      case "record":
        return this.#records(member, sql`${row!}.${sql.identifier(member.source.attribute)}`);
      case "call":
        return this.#result(member);
      case "row":
        return this.#row(member, row);
      case "list":
        return this.#list(member, row);
      case "connection":
        return this.#connection(member, row);
    }
  }

  #result(call: Call): SQL {
    const conditions = call.source.isRow ? [call.source.isRow(call.alias)] : [];
    const from = sql`\n  from (${keptRecord(call)}) as result, ${recordOf(sql`result.record`, call.alias)}${and(conditions)}`;
    const object = objectOf(this.#members(call.members, call.alias), from);
    return call.isNonNull ? sql`coalesce(${object}, ${markJson})` : object;
  }

  #records({ source, alias, members, isItemNonNull }: Records, column: SQL): SQL {
    const objectIn = (value: SQL) => objectOf(this.#members(members, alias), sql`\n  from ${recordOf(value, alias)}`);
    if (!source.isArray) return objectIn(column);
    const at = sql.identifier(Symbol("at"));
    const object = objectIn(sql`${column}[${at}]`);
    const item = isItemNonNull ? sql`coalesce(${object}, ${markJson})` : object;
    return sql`case when array_ndims(${column}) > 1 then ${markJson}
  when ${column} is not null then array_to_json(array(select ${item} from generate_subscripts(${column}, 1) as ${at})) end`;
  }

  #row(read: Row, parent: SQL | null): SQL {
    const members = this.#members(read.members, read.alias);
    const one = read.source.table.extensions?.isInherited ? sql`\n  limit 1` : sql.blank;
    const object = objectOf(members, sql`${this.#from(read, parent, ["conditions"])}${one}`);
    return read.isNonNull ? sql`coalesce(${object}, ${markJson})` : object;
  }

  #list(read: List, parent: SQL | null): SQL {
    const members = this.#members(read.members, read.alias);
    return arrayOf(members, sql`${this.#from(read, parent, ["conditions", "bounds"])}${this.#page(read, 0)}`);
  }

  #connection(read: Connection, parent: SQL | null): SQL {
    const needsNext = read.members.some(
      (member) => member.kind === "pageInfo" && member.members.some(({ kind }) => kind === "hasNextPage"),
    );
    const edges = read.members.find((member) => member.kind === "edges");
    const hasCursors = read.members.some(
      (member) => member.kind === "pageInfo" && member.members.some(({ kind }) => kind.endsWith("Cursor")),
    );
    if (!needsNext && !hasCursors) return this.#plainConnection(read, parent);
    const { size } = this.#given[read.index]!;
    // Before the rows, which follow in the text.
    const members = read.members.map((member) => named(this.#pageMember(member, read, parent), member.key));
    const columns = [
      ...(edges ? [sql`${objectOf(this.#edge(edges.members, read))} as edge`] : []),
      ...(hasCursors ? [sql`${this.#cursor(read)} as cursor`] : []),
    ];
    const rows = sql`select ${lines(columns)}${this.#from(read, parent, ["conditions", "bounds"])}${this.#page(read, needsNext ? 1 : 0)}`;
    const onPage = sql` filter (where r.n <= ${sql.literal(size)})`;
    const page = list([
      ...(edges ? [sql`coalesce(array_to_json(array_agg(r.edge)${onPage}), '[]') as edges`] : []),
      ...(hasCursors ? [sql`array_agg(r.cursor)${onPage} as cursors`] : []),
      sql`count(*) > ${sql.literal(size)} as has_next`,
    ]);
    const numbered = sql`\nselect q.*, row_number() over () as n from (\n${rows}) as q`;
    return objectOf(members, sql`\n  from (select ${page} from (${numbered}) as r) as p`);
  }

  #plainConnection(read: Connection, parent: SQL | null): SQL {
    const members = read.members.map((member) => {
      if (member.kind !== "edges") return named(this.#pageMember(member, read, parent), member.key);
      const edge = this.#edge(member.members, read);
      const from = sql`${this.#from(read, parent, ["conditions", "bounds"])}${this.#page(read, 0)}`;
      return named(arrayOf(edge, from), member.key);
    });
    return objectOf(members);
  }

  #edge(members: readonly EdgeMember[], read: Connection): SQL[] {
    return members.map((member) => {
      if (member.kind === "constant") return named(constant(member.text), member.key);
      if (member.kind === "cursor") return named(this.#cursor(read), member.key);
      return named(objectOf(this.#members(member.members, read.alias)), member.key);
    });
  }

  #pageMember(member: ConnectionMember, read: Connection, parent: SQL | null): SQL {
    switch (member.kind) {
      case "constant":
        return constant(member.text);
      case "edges":
        return sql`p.edges`;
      case "pageInfo":
        return objectOf(member.members.map((each) => named(this.#pageInfo(each, read), each.key)));
      case "totalCount":
        return sql`(select count(*)${this.#from(read, parent, ["conditions"])})`;
    }
  }

  #pageInfo({ kind, ...member }: PageInfoMember, { index }: Connection): SQL {
    const { isAfterCursor, skipped } = this.#given[index]!;
    switch (kind) {
      case "constant":
        return constant((member as { text: string }).text);
      case "hasNextPage":
        return sql`p.has_next`;
      case "hasPreviousPage":
        return isAfterCursor || skipped.length > 0 ? sql.true : sql.false;
      case "startCursor":
        return sql`p.cursors[1]`;
      case "endCursor":
        return sql`p.cursors[cardinality(p.cursors)]`;
    }
  }

  /** The Base64 of `["<digest of the order>", "<text of each value>", …]`, on one line. */
  #cursor({ index }: Connection): SQL {
    const { order } = this.#given[index]!;
    const texts = order.map(({ fragment }) => sql`(${fragment})::text`);
    const json = sql`array_to_json(array[${list([sql.literal(digestOf(order)), ...texts])}])`;
    return sql`translate(encode(convert_to(${json}::text, 'UTF8'), 'base64'), E'\\n', '')`;
  }

  #from(read: Exclude<ReadMember, Call>, parent: SQL | null, lists: readonly ConditionPlace["list"][]): SQL {
    const { source, alias, index } = read;
    const joins =
      source.from && "localAttributes" in source.from
        ? (source.from.localAttributes as readonly string[]).map(
            (local, i) =>
              sql`${alias}.${sql.identifier(String((source.from as any).remoteAttributes[i]))} = ${parent!}.${sql.identifier(local)}`,
          )
        : [];
    const own = lists.flatMap((name) => this.#placed(index, name));
    return sql`\n  from ${source.table.from as SQL} as ${alias}${and([...joins, ...own])}`;
  }

  /** A condition that occurs twice in the statement has its parameters only once. */
  #placed(read: number, list: ConditionPlace["list"]): SQL[] {
    return this.#given[read]![list].map((condition, index) => {
      if (!this.#known.has(condition)) this.places.push({ read, list, index });
      this.#known.add(condition);
      return condition.sql;
    });
  }

  #page({ index }: ReadMember, more: number): SQL {
    const { order, size } = this.#given[index]!;
    const parts = order.map(
      ({ fragment, direction, nulls }) =>
        sql`${fragment} ${direction === "ASC" ? sql`asc` : sql`desc`}${nulls ? (nulls === "FIRST" ? sql` nulls first` : sql` nulls last`) : sql.blank}`,
    );
    const by = parts.length > 0 ? sql`\n  order by ${list(parts)}` : sql.blank;
    const skipped = this.#placed(index, "skipped").map((offset) => sql` offset ${offset}`);
    // A literal: Postgres expects `limit $1` to be a tenth of the table.
    return sql`${by}\n  limit ${sql.literal(size + more)}${sql.join(skipped)}`;
  }
}

const constant = (text: string): SQL => sql`${sql.literal(text)}::text`;

import * as pg from "postgraphile/adaptors/pg";
import { isUpdatable } from "../../db/catalog/relations.ts";
import { Labels, type ObjectId, type PgObject } from "./pg-objects.ts";
import { invalidTags, type SmartTag, tagLines } from "./smart-tag.ts";

type Row = Readonly<Record<string, any>>;
type Catalogs = Record<
  | "namespaces"
  | "classes"
  | "attributes"
  | "constraints"
  | "procs"
  | "types"
  | "indexes"
  | "inherits"
  | "ranges"
  | "descriptions",
  Row[]
> & { readonly catalog_by_oid: Readonly<Record<string, string>> };

const table = (oid: string): ObjectId => `pg_class ${oid}`;
const column = (table: string, number: number): ObjectId => `pg_attribute ${table} ${number}`;
const constraint = (oid: string): ObjectId => `pg_constraint ${oid}`;
const type = (oid: string): ObjectId => `pg_type ${oid}`;
const proc = (oid: string): ObjectId => `pg_proc ${oid}`;

const smartTag = (object: ObjectId, line: string): ObjectId => `${object} ${line}`;

/** In the query by which PostGraphile reads the database. */
const IS_UPDATABLE = "pg_catalog.pg_relation_is_updatable(oid, true)";

/**
 * What PostGraphile reads from the database. It is read once for all builds of a schema without some of the objects, and kept while it
 * is used: the catalog of an empty database has 3 MB, and the schema keeps the adaptor.
 */
export class Introspection {
  #text: string | null = null;
  #catalogs: Catalogs | null = null;
  #tags: readonly SmartTag[] | null = null;
  #invalidTags: ReadonlyMap<ObjectId, string> | null = null;

  /**
   * The adaptor of pg, for which the database is as if these objects, what depends on them and the invalid smart tags had been
   * dropped.
   */
  adaptor(leftOut: ReadonlySet<ObjectId>): typeof pg {
    return {
      ...pg,
      createWithPgClient: (...options: Parameters<typeof pg.createWithPgClient>) => {
        const withPgClient = pg.createWithPgClient(...options);
        const own: typeof withPgClient = (settings, callback) =>
          withPgClient(settings, (client) => {
            const query = async (given: { readonly text: string }) => {
              if (!given.text.includes(IS_UPDATABLE)) return client.query(given as never);
              this.#text ??= await read(client, given.text);
              const gone = leftOut.union(this.invalidTags);
              // PostGraphile keeps what it gets here, and gives it to JSON.parse, which reads the text.
              const text = () => (gone.size === 0 ? this.#text! : JSON.stringify(without(this.#parsed, gone)));
              return { rows: [{ introspection: { toString: text } }] };
            };
            return callback({ ...client, query } as typeof client);
          });
        return Object.assign(own, withPgClient);
      },
    };
  }

  /** Frees the memory. What was returned before still works. */
  [Symbol.dispose](): void {
    this.#text = null;
    this.#catalogs = null;
  }

  /** The columns of the database when it was read: `public.posts.title` */
  get columns(): ReadonlySet<string> {
    const { namespaces, classes, attributes } = this.#parsed;
    const schemas = new Map(namespaces.map(({ _id, nspname }) => [_id, nspname]));
    const tables = new Map(
      classes.map(({ _id, relnamespace, relname }) => [_id, `${schemas.get(relnamespace)}.${relname}`]),
    );
    return new Set(attributes.map(({ attrelid, attname }) => `${tables.get(attrelid)}.${attname}`));
  }

  /** Undefined for an object that the database did not have when it was read. Of functions with one name, the newest. */
  idOf(object: PgObject): ObjectId | undefined {
    return idIn(this.#parsed, object);
  }

  /** The smart tags of tables, views, types and functions, of columns and of constraints. Empty if it could not be read. */
  get tags(): readonly SmartTag[] {
    this.#tags ??= this.#text === null ? [] : tagsIn(this.#parsed);
    return this.#tags;
  }

  /** The smart tags that no build sees, with the reasons. */
  get invalidTags(): ReadonlyMap<ObjectId, string> {
    this.#invalidTags ??= invalidTags(this.tags);
    return this.#invalidTags;
  }

  /** Returns a function that says whether a database object is lost if this one is left out. */
  lossOf(leftOut: ObjectId): (object: PgObject) => boolean {
    const catalogs = this.#parsed;
    const rest = without(catalogs, new Set([leftOut]));
    return (object) => idIn(catalogs, object) !== undefined && idIn(rest, object) === undefined;
  }

  get #parsed(): Catalogs {
    this.#catalogs ??= JSON.parse(this.#text!) as Catalogs;
    return this.#catalogs;
  }
}

async function read(client: { query(options: { text: string }): PromiseLike<any> }, text: string): Promise<string> {
  const { rows } = await client.query({ text: text.replace(IS_UPDATABLE, `(${isUpdatable("pg_class.oid")})`) });
  return rows[0].introspection;
}

/** What a comment is about. */
const objectOf = ({ catalog_by_oid }: Catalogs, { classoid, objoid, objsubid }: Row): ObjectId =>
  objsubid === 0 ? `${catalog_by_oid[classoid]} ${objoid}` : column(objoid, objsubid);

function tagsIn(catalogs: Catalogs): readonly SmartTag[] {
  const tables = new Map(catalogs.constraints.map(({ _id, conrelid }) => [constraint(_id), table(conrelid)]));
  const owners = new Set([
    ...catalogs.classes.map(({ _id }) => table(_id)),
    ...catalogs.procs.map(({ _id }) => proc(_id)),
    ...catalogs.types.map(({ _id }) => type(_id)),
  ]);
  return catalogs.descriptions.flatMap((row) => {
    const commented = objectOf(catalogs, row);
    const [catalog, oid] = commented.split(" ");
    const owner = tables.get(commented) ?? (catalog === "pg_attribute" ? table(oid!) : commented);
    if (!owners.has(owner)) return [];
    const lines: readonly string[] = row.description.split("\n");
    return tagLines(row.description).map((tag) => ({
      id: smartTag(commented, tag),
      tag,
      object: named(catalogs, commented),
      comment: lines.filter((line) => line !== tag).join("\n"),
    }));
  });
}

/** The inverse of idIn. */
function named({ namespaces, classes, attributes, constraints, procs, types }: Catalogs, id: ObjectId): PgObject {
  const [catalog, oid, number] = id.split(" ");
  const schemaOf = (namespace: string) => namespaces.find(({ _id }) => _id === namespace)!.nspname;
  if (catalog === "pg_proc") {
    const { pronamespace, proname } = procs.find(({ _id }) => _id === oid)!;
    return Labels.of("function", schemaOf(pronamespace), proname);
  }
  if (catalog === "pg_type") {
    const { typnamespace, typname } = types.find(({ _id }) => _id === oid)!;
    return Labels.of("type", schemaOf(typnamespace), typname);
  }
  const own = catalog === "pg_constraint" ? constraints.find(({ _id }) => _id === oid)! : null;
  const { relnamespace, relname } = classes.find(({ _id }) => _id === (own?.conrelid ?? oid))!;
  if (own) return Labels.of("constraint", schemaOf(relnamespace), relname, own.conname);
  if (number === undefined) return Labels.of("table", schemaOf(relnamespace), relname);
  const { attname } = attributes.find(({ attrelid, attnum }) => attrelid === oid && String(attnum) === number)!;
  return Labels.of("column", schemaOf(relnamespace), relname, attname);
}

function idIn(catalogs: Catalogs, { kind, schema, name, part }: PgObject): ObjectId | undefined {
  const { namespaces, classes, attributes, constraints, procs, types } = catalogs;
  const namespace = namespaces.find(({ nspname }) => nspname === schema)?._id;
  if (kind === "function") {
    const named = procs.filter(({ pronamespace, proname }) => pronamespace === namespace && proname === name);
    const newest = named.toSorted((a, b) => Number(b._id) - Number(a._id))[0];
    return newest && proc(newest._id);
  }
  if (kind === "type") {
    const found = types.find(({ typnamespace, typname }) => typnamespace === namespace && typname === name);
    return found && type(found._id);
  }
  const relation = classes.find(({ relnamespace, relname }) => relnamespace === namespace && relname === name)?._id;
  if (kind === "table") return relation && table(relation);
  if (kind === "column") {
    const found = attributes.find(({ attrelid, attname }) => attrelid === relation && attname === part);
    return found && column(relation, found.attnum);
  }
  const found = constraints.find(({ conrelid, conname }) => conrelid === relation && conname === part);
  return found && constraint(found._id);
}

function without(catalogs: Catalogs, leftOut: ReadonlySet<ObjectId>): Catalogs {
  const gone = withDependents(catalogs, leftOut);
  const { classes, types, ranges, attributes, constraints, indexes, inherits, procs } = catalogs;
  const columnsGone = new Set(
    attributes.flatMap(({ attrelid, attnum, atttypid }) =>
      gone.has(type(atttypid)) || gone.has(column(attrelid, attnum)) ? [column(attrelid, attnum)] : [],
    ),
  );
  const isGone = (relation: string, columns: readonly number[] | null) =>
    gone.has(table(relation)) || (columns ?? []).some((each) => columnsGone.has(column(relation, each)));
  const inheriting = inherits.filter(
    ({ inhrelid, inhparent }) => !gone.has(table(inhrelid)) && !gone.has(table(inhparent)),
  );
  const partitions = new Set(inheriting.map(({ inhrelid }) => inhrelid));
  return {
    ...catalogs,
    descriptions: catalogs.descriptions.map((row) => {
      const tags = tagLines(row.description).filter((tag) => leftOut.has(smartTag(objectOf(catalogs, row), tag)));
      if (tags.length === 0) return row;
      const lines = row.description.split("\n").filter((line: string) => !tags.includes(line));
      return { ...row, description: lines.join("\n") };
    }),
    classes: classes
      .filter(({ _id }) => !gone.has(table(_id)))
      .map((row) => ({ ...row, relispartition: row.relispartition && partitions.has(row._id) })),
    types: types.filter(({ _id }) => !gone.has(type(_id))),
    ranges: ranges.filter(({ rngtypid }) => !gone.has(type(rngtypid))),
    attributes: attributes.filter(({ attrelid, attnum }) => !isGone(attrelid, [attnum])),
    constraints: constraints.filter(
      ({ _id, conrelid, conkey, confrelid, confkey, contypid }) =>
        !gone.has(constraint(_id)) &&
        !isGone(conrelid, conkey) &&
        !isGone(confrelid, confkey) &&
        !gone.has(type(contypid)),
    ),
    indexes: indexes.filter(({ indrelid, indkey }) => !isGone(indrelid, indkey)),
    inherits: inheriting,
    procs: procs.filter(
      ({ _id, prorettype, proargtypes, proallargtypes }) =>
        !gone.has(proc(_id)) && ![prorettype, ...(proallargtypes ?? proargtypes)].some((each) => gone.has(type(each))),
    ),
  };
}

/** These objects, the types of tables among them, and the arrays, domains and ranges of types among them. */
function withDependents({ classes, types, ranges }: Catalogs, leftOut: ReadonlySet<ObjectId>): ReadonlySet<ObjectId> {
  const gone = new Set(leftOut);
  for (const { _id, reltype } of classes) if (gone.has(table(_id))) gone.add(type(reltype));
  for (let size = -1; size !== gone.size; ) {
    size = gone.size;
    for (const { _id, typelem, typbasetype } of types)
      if (gone.has(type(typelem)) || gone.has(type(typbasetype))) gone.add(type(_id));
    for (const { rngtypid, rngmultitypid, rngsubtype } of ranges) {
      if (gone.has(type(rngsubtype))) gone.add(type(rngtypid));
      if (gone.has(type(rngtypid))) gone.add(type(rngmultitypid));
    }
  }
  gone.delete(type("0"));
  return gone;
}

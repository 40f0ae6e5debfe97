import {
  type Introspection,
  type PgAttribute,
  type PgClass,
  type PgConstraint,
  type PgEnum,
  type PgIndex,
  type PgInherits,
  type PgNamespace,
  type PgProc,
  type PgRange,
  type PgType,
  parseSmartComment,
} from "postgraphile/graphile-build-pg/pg-introspection";
import { endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";
import { drop } from "./dropped.ts";
import type { ObjectId } from "./pg-objects.ts";

/** Rows of one catalog, which get the methods of a prototype. */
type Described = readonly [rows: readonly object[], methods: object];
type Comment = string | undefined;

/** JSON of each catalog, by its name in the result of PostGraphile's introspection query: `attributes` */
export type CatalogTexts = ReadonlyMap<string, string>;

export async function parseCatalogs(texts: CatalogTexts): Promise<Introspection> {
  const catalogs = await mapYielding(texts, ([catalog, text]) => [catalog, JSON.parse(text)] as const);
  return Object.fromEntries(catalogs) as unknown as Introspection;
}

/**
 * The result of that query as objects with the methods of pg-introspection, whose parser makes a dozen functions
 * for each object: for 1,000 tables a third of a second in one turn, and 60 MB. Only functions have `getACL`.
 */
export async function parseIntrospection(texts: CatalogTexts, leftOut: ReadonlySet<ObjectId>): Promise<Introspection> {
  const all = await parseCatalogs(texts);
  await endOfSlice();
  drop(all, leftOut);
  await endOfSlice();
  const lists = new Lists(all);
  for (const [rows, methods] of objectsOf(all, lists))
    await mapYielding(rows, (row) => void Object.setPrototypeOf(row, methods));
  return all;
}

/** The objects by their ids, and by what they belong to. */
class Lists {
  readonly namespaces: ReadonlyMap<string, PgNamespace>;
  readonly classes: ReadonlyMap<string, PgClass>;
  readonly types: ReadonlyMap<string, PgType>;
  readonly attributes: Map<string, PgAttribute[]>;
  readonly constraints: Map<string, PgConstraint[]>;
  readonly references: Map<string, PgConstraint[]>;
  readonly indexes: Map<string, PgIndex[]>;
  readonly #comments: ReadonlyMap<string, string>;
  readonly #oids: Readonly<Record<string, string>>;

  constructor(all: Introspection) {
    this.namespaces = byId(all.namespaces);
    this.classes = byId(all.classes);
    this.types = byId(all.types);
    this.attributes = Map.groupBy(all.attributes, ({ attrelid }) => attrelid);
    this.constraints = Map.groupBy(all.constraints, ({ conrelid }) => conrelid);
    for (const each of this.constraints.values())
      each.sort((one, other) => one.conname.localeCompare(other.conname, "en-US"));
    this.references = Map.groupBy(all.constraints, ({ confrelid }) => confrelid ?? "0");
    this.indexes = Map.groupBy(all.indexes, ({ indrelid }) => indrelid);
    this.#oids = Object.fromEntries(Object.entries(all.catalog_by_oid).map(([oid, catalog]) => [catalog, oid]));
    this.#comments = new Map(
      all.descriptions.map(({ classoid, objoid, objsubid, description }) => [
        `${classoid} ${objoid} ${objsubid}`,
        description,
      ]),
    );
  }

  comment(catalog: string, oid: string, part = 0): Comment {
    return this.#comments.get(`${this.#oids[catalog]} ${oid} ${part}`);
  }

  /** The columns of a table with these numbers; 0 is an expression. */
  numbered(table: string, numbers: readonly number[]): (PgAttribute | null)[] {
    const columns = this.attributes.get(table) ?? [];
    return numbers.map((number) => columns.find(({ attnum }) => attnum === number) ?? null);
  }
}

const byId = <T extends { readonly _id: string }>(rows: readonly T[]) => new Map(rows.map((row) => [row._id, row]));

function objectsOf(all: Introspection, lists: Lists): readonly Described[] {
  const { namespaces, classes, types, attributes, constraints, references, indexes } = lists;
  const roles = byId(all.roles);
  const enums = Map.groupBy(all.enums, ({ enumtypid }) => enumtypid);
  const inherits = Map.groupBy(all.inherits, ({ inhrelid }) => inhrelid);
  // Plugins add to the lists of an object.
  const of = <T>(lists: Map<string, T[]>, id: string): T[] => lists.get(id) ?? lists.set(id, []).get(id)!;

  const find = (rows: readonly { readonly _id: string }[]) => {
    const known = byId(rows);
    return ({ id }: { id: string }) => known.get(id);
  };
  Object.assign(all, {
    getCurrentUser: () => all.roles.find(({ rolname }) => rolname === all.current_user),
    getNamespace: (by: { id?: string; name?: string }) =>
      by.id ? namespaces.get(by.id) : all.namespaces.find(({ nspname }) => nspname === by.name),
    getClass: ({ id }: { id: string }) => classes.get(id),
    getType: ({ id }: { id: string }) => types.get(id),
    getConstraint: find(all.constraints),
    getProc: find(all.procs),
    getRoles: find(all.roles),
    getEnum: find(all.enums),
    getExtension: find(all.extensions),
    getLanguage: find(all.languages),
    getIndex: ({ id }: { id: string }) => all.indexes.find(({ indexrelid }) => indexrelid === id),
  } satisfies Partial<Record<keyof Introspection, unknown>>);

  return [
    describe<PgNamespace>(all.namespaces, "PgNamespace", {
      ...commented(({ _id }) => lists.comment("pg_namespace", _id)),
      getOwner: ({ nspowner }) => roles.get(nspowner),
      getClass: ({ _id }, { name }) =>
        all.classes.find(({ relnamespace, relname }) => relnamespace === _id && relname === name),
      getConstraint: ({ _id }, { name }) =>
        all.constraints.find(({ connamespace, conname }) => connamespace === _id && conname === name),
      getProcs: ({ _id }, { name }) =>
        all.procs.filter(({ pronamespace, proname }) => pronamespace === _id && proname === name),
    }),
    describe<PgClass>(all.classes, "PgClass", {
      ...commented(
        ({ _id }) => lists.comment("pg_class", _id),
        ({ reltype }) => lists.comment("pg_type", reltype!),
      ),
      getNamespace: ({ relnamespace }) => namespaces.get(relnamespace),
      getType: ({ reltype }) => types.get(reltype!),
      getOfType: ({ reloftype }) => types.get(reloftype!),
      getOwner: ({ relowner }) => roles.get(relowner),
      getAttributes: ({ _id }) => of(attributes, _id),
      getAttribute: ({ _id }, { number, name }) =>
        of(attributes, _id).find(({ attnum, attname }) => (number ? attnum === number : attname === name)),
      getConstraints: ({ _id }) => of(constraints, _id),
      getForeignConstraints: ({ _id }) => of(references, _id),
      getIndexes: ({ _id }) => of(indexes, _id),
      getInherited: ({ _id }) => of(inherits, _id),
      getAccessMethod: ({ relam }) => all.am.find(({ _id }) => _id === relam),
    }),
    describe<PgIndex>(all.indexes, "PgIndex", {
      getIndexClass: ({ indexrelid }) => classes.get(indexrelid),
      getClass: ({ indrelid }) => classes.get(indrelid),
      getKeys: ({ indrelid, indkey }) => lists.numbered(indrelid, indkey!),
      getDescription: (index) => index.getIndexClass()?.getDescription(),
      getTagsAndDescription: (index) => index.getIndexClass()?.getTagsAndDescription() ?? parseSmartComment(undefined),
      getTags: (index) => index.getTagsAndDescription().tags,
    }),
    describe<PgAttribute>(all.attributes, "PgAttribute", {
      ...commented(({ attrelid, attnum }) => lists.comment("pg_class", attrelid, attnum)),
      getClass: ({ attrelid }) => classes.get(attrelid),
      getType: ({ atttypid }) => types.get(atttypid),
    }),
    describe<PgConstraint>(all.constraints, "PgConstraint", {
      ...commented(({ _id }) => lists.comment("pg_constraint", _id)),
      getNamespace: ({ connamespace }) => namespaces.get(connamespace),
      getClass: ({ conrelid }) => classes.get(conrelid),
      getAttributes: ({ conrelid, conkey }) => (conkey ? lists.numbered(conrelid, conkey) : undefined),
      getType: ({ contypid }) => types.get(contypid!),
      getForeignClass: ({ confrelid }) => classes.get(confrelid!),
      getForeignAttributes: ({ confrelid, confkey }) => (confkey ? lists.numbered(confrelid!, confkey) : undefined),
    }),
    describe<PgProc>(all.procs, "PgProc", {
      ...commented(({ _id }) => lists.comment("pg_proc", _id)),
      getNamespace: ({ pronamespace }) => namespaces.get(pronamespace),
      getOwner: ({ proowner }) => roles.get(proowner),
      getReturnType: ({ prorettype }) => types.get(prorettype!),
      getArguments: (proc) => argumentsOf(proc, types),
      getACL: (proc) => proc.proacl?.map(grantOf) ?? ["public", proc.getOwner()!.rolname].map(mayExecute),
    }),
    describe<PgType>(all.types, "PgType", {
      ...commented(({ _id }) => lists.comment("pg_type", _id)),
      getNamespace: ({ typnamespace }) => namespaces.get(typnamespace),
      getOwner: ({ typowner }) => roles.get(typowner!),
      getClass: ({ typrelid }) => classes.get(typrelid!),
      getElemType: ({ typelem }) => types.get(typelem!),
      getArrayType: ({ typarray }) => types.get(typarray!),
      getEnumValues: ({ _id }) => of(enums, _id),
      getRange: ({ _id }) => all.ranges.find(({ rngtypid }) => rngtypid === _id),
    }),
    describe<PgEnum>(all.enums, "PgEnum", {
      ...commented(() => undefined),
      getType: ({ enumtypid }) => types.get(enumtypid),
    }),
    describe<PgRange>(all.ranges, "PgRange", {
      getType: ({ rngtypid }) => types.get(rngtypid!),
      getSubType: ({ rngsubtype }) => types.get(rngsubtype!),
    }),
    describe<PgInherits>(all.inherits, "PgInherits", {
      getParent: ({ inhparent }) => classes.get(inhparent),
      getChild: ({ inhrelid }) => classes.get(inhrelid),
    }),
  ];
}

/** Answers for an object; `by` is the argument of the few methods that have one. */
type Answers<Row> = Record<string, (row: Row, by: any) => unknown>;

function describe<Row extends object>(rows: readonly Row[], type: string, answers: Answers<Row>): Described {
  const methods = Object.entries(answers).map(([name, answer]) => [
    name,
    function (this: Row, by: unknown) {
      return answer(this, by);
    },
  ]);
  return [rows, { ...Object.fromEntries(methods), _type: type }];
}

/** Smart tags may also come from another comment. Plugins change them: an object keeps what is parsed once. */
const commented = <Row extends Commented>(
  commentOf: (row: Row) => Comment,
  otherOf: (row: Row) => Comment = () => undefined,
): Answers<Row> => ({
  getDescription: commentOf,
  getTagsAndDescription(row) {
    row.parsed ??= parseSmartComment(commentOf(row) ?? otherOf(row));
    return row.parsed;
  },
  getTags: (row) => row.getTagsAndDescription().tags,
});

type Parsed = ReturnType<typeof parseSmartComment>;
type Commented = { getTagsAndDescription(): Parsed; parsed?: Parsed };

function argumentsOf(proc: PgProc, types: ReadonlyMap<string, PgType>) {
  const ids = proc.proallargtypes ?? proc.proargtypes ?? [];
  return ids.map((id, i) => {
    const mode = proc.proargmodes?.[i] ?? "i";
    return {
      isIn: "ibv".includes(mode),
      isOut: "obt".includes(mode),
      isVariadic: mode === "v",
      hasDefault: proc.pronargdefaults ? i >= ids.length - proc.pronargdefaults : false,
      type: types.get(id)!,
      name: proc.proargnames?.[i] ?? null,
    };
  });
}

/** `"a role"=X/postgres`; without a name: public. Source: PostgreSQL docs, "Privileges". */
const GRANT = /^(?:"((?:[^"]|"")*)"|([^"=]*))=([^/]*)\//;

function grantOf(grant: string) {
  const [, quoted, plain, privileges] = GRANT.exec(grant)!;
  return { role: quoted?.replaceAll('""', '"') || plain || "public", execute: privileges!.includes("X") };
}

const mayExecute = (role: string) => ({ role, execute: true });

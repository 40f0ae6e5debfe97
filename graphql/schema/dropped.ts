import type { Introspection } from "postgraphile/graphile-build-pg/pg-introspection";
import { type ObjectId, smartTag, tagLines } from "./pg-objects.ts";

type Catalogs = Record<
  | "classes"
  | "attributes"
  | "constraints"
  | "procs"
  | "types"
  | "indexes"
  | "inherits"
  | "ranges"
  | "depends"
  | "descriptions",
  any[]
> &
  Pick<Introspection, "catalog_by_oid">;

const table = (oid: string): ObjectId => `pg_class ${oid}`;
const column = (table: string, number: number): ObjectId => `pg_attribute ${table} ${number}`;
const constraint = (oid: string): ObjectId => `pg_constraint ${oid}`;
const type = (oid: string): ObjectId => `pg_type ${oid}`;
const proc = (oid: string): ObjectId => `pg_proc ${oid}`;

/**
 * Makes it as if these objects and smart tags had been dropped, with what depends on them, and the tables and functions of extensions,
 * which are no part of the schema.
 */
export function drop(all: Catalogs, leftOut: ReadonlySet<ObjectId>): void {
  dropTags(all, leftOut);
  const dropped = [...leftOut, ...membersOfExtensions(all)];
  if (dropped.length === 0) return;
  const gone = withDependents(all, new Set(dropped));
  all.classes = all.classes.filter(({ _id }) => !gone.has(table(_id)));
  all.types = all.types.filter(({ _id }) => !gone.has(type(_id)));
  all.ranges = all.ranges.filter(({ rngtypid }) => !gone.has(type(rngtypid)));
  all.attributes = all.attributes.filter(({ attrelid, attnum }) => !gone.has(column(attrelid, attnum)));
  all.constraints = all.constraints.filter(({ _id }) => !gone.has(constraint(_id)));
  all.indexes = all.indexes.filter(
    ({ indrelid, indkey }) =>
      !gone.has(table(indrelid)) && !indkey.some((each: number) => gone.has(column(indrelid, each))),
  );
  all.procs = all.procs.filter(({ _id }) => !gone.has(proc(_id)));
  all.inherits = all.inherits.filter(
    ({ inhrelid, inhparent }) => !gone.has(table(inhrelid)) && !gone.has(table(inhparent)),
  );
  const partitions = new Set(all.inherits.map(({ inhrelid }) => inhrelid));
  for (const each of all.classes) each.relispartition &&= partitions.has(each._id);
}

function dropTags({ descriptions, catalog_by_oid }: Catalogs, leftOut: ReadonlySet<ObjectId>): void {
  for (const row of leftOut.size === 0 ? [] : descriptions) {
    const { classoid, objoid, objsubid, description } = row;
    const commented = objsubid === 0 ? `${catalog_by_oid[classoid]} ${objoid}` : column(objoid, objsubid);
    const tags = tagLines(description).filter((tag) => leftOut.has(smartTag(commented, tag)));
    if (tags.length === 0) continue;
    row.description = description
      .split("\n")
      .filter((line: string) => !tags.includes(line))
      .join("\n");
  }
}

const membersOfExtensions = ({ depends, catalog_by_oid }: Catalogs): readonly ObjectId[] =>
  depends.flatMap(({ deptype, refclassid, classid, objid }) => {
    const catalog = catalog_by_oid[classid];
    const isMember = deptype === "e" && catalog_by_oid[refclassid] === "pg_extension";
    return isMember && (catalog === "pg_class" || catalog === "pg_proc") ? [`${catalog} ${objid}`] : [];
  });

/**
 * These objects, the types of tables among them, the arrays, domains and ranges of types, the columns of types and tables, and the
 * constraints and functions of all of them.
 */
export function withDependents(catalogs: Catalogs, leftOut: ReadonlySet<ObjectId>): ReadonlySet<ObjectId> {
  const { classes, types, ranges, attributes, constraints, procs } = catalogs;
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
  for (const { attrelid, attnum, atttypid } of attributes)
    if (gone.has(table(attrelid)) || gone.has(type(atttypid))) gone.add(column(attrelid, attnum));
  const isGone = (relation: string, columns: readonly number[] | null) =>
    gone.has(table(relation)) || (columns ?? []).some((each) => gone.has(column(relation, each)));
  for (const { _id, conrelid, conkey, confrelid, confkey, contypid } of constraints)
    if (isGone(conrelid, conkey) || isGone(confrelid, confkey) || gone.has(type(contypid))) gone.add(constraint(_id));
  for (const { _id, prorettype, proargtypes, proallargtypes } of procs)
    if ([prorettype, ...(proallargtypes ?? proargtypes)].some((each) => gone.has(type(each)))) gone.add(proc(_id));
  return gone;
}

import type { Column, DomainCasts } from "./catalog.ts";
import type { Grants } from "./grants.ts";
import { quoteName } from "./quote.ts";
import type { Relations } from "./relations.ts";
import type { CastRow } from "./rows/functions.ts";
import type { ColumnRow } from "./rows/relations.ts";
import type { Oid } from "./rows/types.ts";
import type { Types } from "./types.ts";
import type { Views } from "./views.ts";

/** Makes the columns of tables and views out of their rows. */
export class Columns {
  readonly #relations: Relations;
  readonly #views: Views;
  readonly #types: Types;
  readonly #grants: Grants;
  readonly #casts: ReadonlyMap<Oid, DomainCasts>;

  constructor(relations: Relations, views: Views, types: Types, grants: Grants, casts: readonly CastRow[]) {
    this.#relations = relations;
    this.#views = views;
    this.#types = types;
    this.#grants = grants;
    this.#casts = findCasts(casts, types);
  }

  of(relation: Oid): ReadonlyMap<string, Column> {
    const columns = new Map<string, Column>();
    for (const row of this.#relations.columnsOf(relation)) columns.set(row.name, this.#build(row));
    return columns;
  }

  #build(row: ColumnRow): Column {
    return Object.freeze({
      name: row.name,
      type: row.typeText ?? this.#types.textOf(row.type),
      shape: this.#types.shapeOf(row.type),
      isNullable: this.#isNullable(row),
      ...this.#value(row),
      maxLength: this.#maxLength(row),
      comment: row.comment,
      casts: this.#casts.get(row.type) ?? null,
      grants: this.#grants.onTable(row.acl),
    });
  }

  #isNullable(row: ColumnRow): boolean {
    const same = this.#views.sameNullness(row);
    return !same || !(same.isNotNull || this.#types.refusesNull(same.type));
  }

  /** Where the value comes from when none is given. A view over one table has the defaults of that, and may have its own. */
  #value(row: ColumnRow): Pick<Column, "hasDefault" | "defaultExpression" | "generated"> {
    const own = row.default ?? this.#types.chainOf(row.type)[0]!.default;
    const origin = this.#views.isOverOneTable(row.relation) ? this.#views.originOf(row) : undefined;
    if (origin && own === null) return this.#value(origin);
    const isAlways = row.identity === "a" || row.generated !== "" || (!origin && this.#isComputed(row));
    return {
      hasDefault: isAlways || own !== null,
      defaultExpression: isAlways ? null : own,
      generated: isAlways ? "always" : row.identity === "d" ? "by default" : null,
    };
  }

  /** Of a view that Postgres itself can write, what is no column of its table. */
  #isComputed({ relation }: ColumnRow): boolean {
    return this.#views.isOverOneTable(relation) && !this.#relations.get(relation)!.hasOwnWrites;
  }

  #maxLength({ type, modifier }: ColumnRow): number | null {
    const chain = this.#types.chainOf(type);
    const packed = [modifier, ...chain.map((made) => made.modifier)].find((value) => value >= 0);
    const overhead = LENGTH_OVERHEAD[this.#types.systemNameOf(chain.at(-1)!.oid) ?? ""];
    return packed === undefined || overhead === undefined ? null : packed - overhead;
  }
}

/** Types whose modifier is a length, and what Postgres adds to it. */
const LENGTH_OVERHEAD: Readonly<Record<string, number>> = { varchar: 4, bpchar: 4, bit: 0, varbit: 0 };

const NO_CASTS: DomainCasts = { toJson: null, fromText: null, fromJson: null };

/** Domains → the functions that make them from text and JSON, and JSON from them. */
function findCasts(rows: readonly CastRow[], types: Types): ReadonlyMap<Oid, DomainCasts> {
  const casts = new Map<Oid, DomainCasts>();
  const add = (domain: Oid, cast: Partial<DomainCasts>) => {
    if (types.kindOf(domain) === "d") casts.set(domain, { ...(casts.get(domain) ?? NO_CASTS), ...cast });
  };
  for (const { source, target, ...name } of rows) {
    const quoted = quoteName(name);
    if (types.systemNameOf(target) === "json") add(source, { toJson: quoted });
    if (types.systemNameOf(source) === "text") add(target, { fromText: quoted });
    if (types.systemNameOf(source) === "json") add(target, { fromJson: quoted });
  }
  return casts;
}

import type { ComputedField, Relationship } from "./catalog.ts";
import { quoteName } from "./quote.ts";
import type { Relations } from "./relations.ts";
import type { FunctionRow } from "./rows/functions.ts";
import type { RelationRow } from "./rows/relations.ts";
import type { Oid } from "./rows/types.ts";
import type { Types } from "./types.ts";

export type Computed = {
  readonly relationships: readonly Relationship[];
  readonly fields: ReadonlyMap<string, ComputedField>;
};

const NOTHING: Computed = { relationships: [], fields: new Map() };

/** What functions of one row of a table add to it: values, and rows of other tables. */
export class ComputedOf {
  readonly #relations: Relations;
  readonly #types: Types;
  readonly #byArgument: ReadonlyMap<Oid, readonly FunctionRow[]>;

  constructor(functions: readonly FunctionRow[], relations: Relations, types: Types) {
    this.#relations = relations;
    this.#types = types;
    const ofOneArgument = functions.filter((row) => inputsOf(row).length === 1);
    this.#byArgument = Map.groupBy(ofOneArgument, (row) => inputsOf(row)[0]!);
  }

  table({ schema, rowType }: RelationRow): Computed {
    const functions = this.#byArgument.get(rowType);
    if (!functions) return NOTHING;
    // Where two have one name, that of the table's own schema has it, or else the first on the search path.
    const inOrder = [...functions].sort((a, b) => Number(b.schema === schema) - Number(a.schema === schema));
    const known = new Map<string, FunctionRow>();
    for (const row of inOrder) if (!known.has(row.name)) known.set(row.name, row);
    const all = [...known.values()];
    return {
      relationships: all.flatMap((row) => this.#relationship(row)),
      fields: new Map(all.flatMap((row) => this.#field(row)).map((field) => [field.name, field])),
    };
  }

  #relationship({ schema, name, returns, isSet, rows }: FunctionRow): Relationship[] {
    const target = this.#relations.ofRowType(returns);
    if (!target?.isServed) return [];
    return [
      {
        kind: "computed",
        isToOne: !isSet || rows === 1,
        target: this.#relations.nameOf(target.oid),
        function: { schema, name },
      },
    ];
  }

  #field({ schema, name, returns, isSet, comment }: FunctionRow): ComputedField[] {
    if (isSet || this.#types.kindOf(returns) === "p" || this.#relations.ofRowType(returns)?.isServed) return [];
    return [
      {
        function: quoteName({ schema, name }),
        name,
        type: this.#types.textOf(returns),
        shape: this.#types.shapeOf(returns),
        comment,
      },
    ];
  }
}

/** Types of what goes in. */
const inputsOf = ({ types, modes }: FunctionRow): readonly Oid[] =>
  modes === null ? types : types.filter((_, i) => modes[i] !== "o" && modes[i] !== "t");

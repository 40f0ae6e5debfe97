import type { DatabaseFunction, FunctionArgument, FunctionResult, ResultColumn, Setting } from "./catalog.ts";
import { attributesOf } from "./composites.ts";
import { type Grants, parseSettings } from "./grants.ts";
import type { Relations } from "./relations.ts";
import type { ArgumentMode, FunctionRow } from "./rows/functions.ts";
import type { Oid } from "./rows/types.ts";
import type { Types } from "./types.ts";

type Argument = { readonly name: string; readonly type: Oid; readonly mode: ArgumentMode };

const IN: readonly ArgumentMode[] = ["i", "b", "v"];
const OUT: readonly ArgumentMode[] = ["o", "b", "t"];
const VOLATILITIES = { i: "immutable", s: "stable", v: "volatile" } as const;

/** Settings of a function that are worth nothing when they begin with the function: the transaction takes them over. */
const OF_THE_TRANSACTION = ["statement_timeout", "default_transaction_isolation", "plan_filter.statement_cost_limit"];

/** Makes functions out of their rows. */
export class Functions {
  readonly #relations: Relations;
  readonly #types: Types;
  readonly #grants: Grants;

  constructor(relations: Relations, types: Types, grants: Grants) {
    this.#relations = relations;
    this.#types = types;
    this.#grants = grants;
  }

  /** Null for what can't be called with values: triggers, and what takes or returns inner types of Postgres. */
  build(row: FunctionRow): DatabaseFunction | null {
    const all = argumentsOf(row);
    const inputs = all.filter(({ mode }) => IN.includes(mode));
    const returns = this.#result(
      row,
      all.filter(({ mode }) => OUT.includes(mode)),
    );
    if (!returns || inputs.some(({ type }) => this.#types.kindOf(type) === "p")) return null;
    return Object.freeze({
      schema: row.schema,
      name: row.name,
      owner: this.#grants.roleOf(row.owner),
      comment: row.comment,
      arguments: inputs.map((argument, i) => this.#argument(argument, i < inputs.length - row.defaults)),
      returns,
      volatility: VOLATILITIES[row.volatility],
      settings: settingsOfTransaction(row.settings),
      grantees: this.#grants.onFunction(row.acl),
    });
  }

  #argument({ name, type, mode }: Argument, isRequired: boolean): FunctionArgument {
    return { name, ...this.#typeOf(type), isRequired, isVariadic: mode === "v" };
  }

  #result({ returns, isSet }: FunctionRow, out: readonly Argument[]): FunctionResult | null {
    // A domain over rows is rows.
    const relation = this.#relations.ofRowType(this.#types.chainOf(returns).at(-1)!.oid);
    if (relation?.isServed) return { kind: "table", isSet, table: this.#relations.nameOf(relation.oid) };
    if (relation) {
      return { kind: "composite", isSet, columns: attributesOf(relation.oid, this.#relations, this.#types) };
    }
    // A single one without a name is a plain value.
    if (out.length > 1 || out[0]?.name) return { kind: "composite", isSet, columns: this.#columns(out) };
    if (this.#types.kindOf(returns) !== "p") return { kind: "scalar", isSet, ...this.#typeOf(returns) };
    const pseudo = this.#types.systemNameOf(returns);
    if (pseudo === "void") return { kind: "void" };
    return pseudo === "record" ? { kind: "record", isSet } : null;
  }

  /** Postgres makes up the names that are not given. */
  #columns(out: readonly Argument[]): ReadonlyMap<string, ResultColumn> {
    const columns = out.map(({ name, type }, i) => ({ name: name || `column${i + 1}`, ...this.#typeOf(type) }));
    return new Map(columns.map((column) => [column.name, column]));
  }

  #typeOf(type: Oid): Pick<ResultColumn, "type" | "shape"> {
    return { type: this.#types.textOf(type), shape: this.#types.shapeOf(type) };
  }
}

const argumentsOf = ({ types, modes, names }: FunctionRow): Argument[] =>
  types.map((type, i) => ({ name: names?.[i] ?? "", type, mode: modes?.[i] ?? "i" }));

const settingsOfTransaction = (settings: readonly string[] | null): readonly Setting[] =>
  parseSettings(settings).filter(([name]) => OF_THE_TRANSACTION.includes(name));

import {
  type ComputedField,
  type DatabaseFunction,
  type FunctionArgument,
  type FunctionResult,
  quoteName,
  type Relationship,
  type ResultColumn,
  type Setting,
} from "./catalog.ts";
import { type Grants, parseSettings } from "./grants.ts";
import type { Oid, RelationRow, Relations } from "./relations.ts";
import { attributesOf, type Types } from "./types.ts";

export type FunctionRow = {
  readonly schema: string;
  readonly name: string;
  readonly owner: Oid;
  readonly comment: string | null;
  readonly volatility: "i" | "s" | "v";
  /** `["statement_timeout=3s"]` */
  readonly settings: readonly string[] | null;
  readonly acl: string | null;
  /** Types of all arguments, including OUT. */
  readonly types: readonly Oid[];
  /** Null when all are IN. */
  readonly modes: readonly ArgumentMode[] | null;
  readonly names: readonly string[] | null;
  /** The number of trailing IN arguments with a default. */
  readonly defaults: number;
  /** SQL texts, for a variadic function: those of all arguments, null where there is none. */
  readonly defaultTexts: readonly (string | null)[] | null;
  readonly returns: Oid;
  readonly isSet: boolean;
  /** The estimated rows of a set; 0 when the function does not return a set. */
  readonly rows: number;
  readonly isServed: boolean;
};

/** in, out, inout, variadic, column of `returns table` */
export type ArgumentMode = "i" | "o" | "b" | "v" | "t";

/** Functions of the served schemas, and functions of the extra search path that take a row of a served table. */
export const FUNCTIONS = `
  select s.name as schema, p.proname as name, p.proowner as owner, d.description as comment,
    p.provolatile as volatility, p.proconfig as settings, p.proacl::text as acl,
    coalesce(p.proallargtypes, p.proargtypes::oid[]) as types, p.proargmodes as modes, p.proargnames as names,
    p.pronargdefaults as defaults, case when p.provariadic <> 0 then array(
      select pg_get_function_arg_default(p.oid, n)
      from generate_series(1, cardinality(coalesce(p.proallargtypes, p.proargtypes::oid[]))) as n
    ) end as "defaultTexts", p.prorettype as returns, p.proretset as "isSet", p.prorows as rows, s."isServed"
  from searched as s
  join pg_proc as p on p.pronamespace = s.oid
  left join pg_description as d on d.objoid = p.oid and d.classoid = 'pg_proc'::regclass
  where p.prokind = 'f'
    and (
      s."isServed"
      or p.pronargs > 0 and p.pronargs - p.pronargdefaults <= 1 and p.proargtypes[0] in (select "rowType" from relations as r where r."isServed")
    )
  order by s.position, p.proname, p.oid`;

type Argument = Pick<FunctionArgument, "name" | "defaultText"> & { readonly type: Oid; readonly mode: ArgumentMode };

const IN: readonly ArgumentMode[] = ["i", "b", "v"];
const OUT: readonly ArgumentMode[] = ["o", "b", "t"];
const VOLATILITIES = { i: "immutable", s: "stable", v: "volatile" } as const;

/** Settings of a function that have no effect once it runs, so the transaction applies them. */
const TRANSACTION_SETTINGS = ["statement_timeout", "default_transaction_isolation", "plan_filter.statement_cost_limit"];

/** Builds functions from their rows. */
export class Functions {
  readonly #relations: Relations;
  readonly #types: Types;
  readonly #grants: Grants;

  constructor(relations: Relations, types: Types, grants: Grants) {
    this.#relations = relations;
    this.#types = types;
    this.#grants = grants;
  }

  /** Null for functions that cannot be called with values: triggers, and those with internal types of Postgres. */
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

  #argument({ name, type, mode, defaultText }: Argument, isRequired: boolean): FunctionArgument {
    return { name, ...this.#typeOf(type), isRequired, defaultText, isVariadic: mode === "v" };
  }

  #result({ returns, isSet }: FunctionRow, out: readonly Argument[]): FunctionResult | null {
    // A domain over a row type returns rows.
    const relation = this.#relations.ofRowType(this.#types.chainOf(returns).at(-1)!.oid);
    if (relation?.isServed) return { kind: "table", isSet, table: this.#relations.nameOf(relation.oid) };
    if (relation) {
      return { kind: "composite", isSet, columns: attributesOf(relation.oid, this.#relations, this.#types) };
    }
    // A single unnamed OUT argument is a plain value.
    if (out.length > 1 || out[0]?.name) return { kind: "composite", isSet, columns: this.#columns(out) };
    if (this.#types.kindOf(returns) !== "p") return { kind: "scalar", isSet, ...this.#typeOf(returns) };
    const pseudo = this.#types.systemNameOf(returns);
    if (pseudo === "void") return { kind: "void" };
    return pseudo === "record" ? { kind: "record", isSet } : null;
  }

  /** Unnamed columns get the name that Postgres generates. */
  #columns(out: readonly Argument[]): ReadonlyMap<string, ResultColumn> {
    const columns = out.map(({ name, type }, i) => ({ name: name || `column${i + 1}`, ...this.#typeOf(type) }));
    return new Map(columns.map((column) => [column.name, column]));
  }

  #typeOf(type: Oid): Pick<ResultColumn, "type" | "shape"> {
    return { type: this.#types.textOf(type), shape: this.#types.shapeOf(type) };
  }
}

const argumentsOf = ({ types, modes, names, defaultTexts }: FunctionRow): Argument[] =>
  types.map((type, i) => ({
    name: names?.[i] ?? "",
    type,
    mode: modes?.[i] ?? "i",
    defaultText: defaultTexts?.[i] ?? null,
  }));

const settingsOfTransaction = (settings: readonly string[] | null): readonly Setting[] =>
  parseSettings(settings).filter(([name]) => TRANSACTION_SETTINGS.includes(name));

export type Computed = {
  readonly relationships: readonly Relationship[];
  readonly fields: ReadonlyMap<string, ComputedField>;
};

const NO_COMPUTED: Computed = { relationships: [], fields: new Map() };

/**
 * Functions of one row of a table, which add fields and relationships to the table, and to those that inherit from it. Their other arguments
 * have defaults.
 */
export class ComputedFields {
  readonly #relations: Relations;
  readonly #types: Types;
  readonly #byArgument: ReadonlyMap<Oid, readonly FunctionRow[]>;

  constructor(functions: readonly FunctionRow[], relations: Relations, types: Types) {
    this.#relations = relations;
    this.#types = types;
    const ofOneArgument = functions.filter((row) => {
      const { length } = inputsOf(row);
      return length > 0 && length - row.defaults <= 1;
    });
    this.#byArgument = Map.groupBy(ofOneArgument, (row) => inputsOf(row)[0]!);
  }

  table(relation: RelationRow): Computed {
    const types = this.#relations.rowTypesOf(relation);
    const functions = types.flatMap((type) => this.#byArgument.get(type) ?? []);
    if (functions.length === 0) return NO_COMPUTED;
    // Of two functions with one name, the one in the table's schema wins, or else the first on the search path. Of those in one schema,
    // Postgres calls the one of the table itself.
    const inOrder = functions.toSorted(
      (a, b) => Number(b.schema === relation.schema) - Number(a.schema === relation.schema),
    );
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

  #field({ schema, name, returns, isSet, comment, volatility }: FunctionRow): ComputedField[] {
    if (isSet || this.#types.kindOf(returns) === "p" || this.#relations.ofRowType(returns)?.isServed) return [];
    return [
      {
        function: quoteName({ schema, name }),
        isVolatile: volatility === "v",
        name,
        type: this.#types.textOf(returns),
        shape: this.#types.shapeOf(returns),
        comment,
      },
    ];
  }
}

/** The types of the IN arguments. */
const inputsOf = ({ types, modes }: FunctionRow): readonly Oid[] =>
  modes === null ? types : types.filter((_, i) => modes[i] !== "o" && modes[i] !== "t");

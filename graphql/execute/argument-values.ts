import { type FieldNode, Kind, type ValueNode, type VariableDefinitionNode } from "postgraphile/graphql";
import { invalid } from "./conditions.ts";

/** To read so many takes 20 ms. */
const MAX_VALUES = 25_000;

/** The values in the arguments of a document, with fragments expanded. */
export type ArgumentValues = {
  /** Those that the document contains. */
  readonly literals: number;
  /** How often each variable is used. */
  readonly uses: ReadonlyMap<string, number>;
  /** How many values the default of a variable has. */
  readonly defaults: ReadonlyMap<string, number>;
};

/** Counts values: a list has those of its items, and an object those of its fields. */
export class ArgumentCounter {
  literals = 0;
  readonly uses = new Map<string, number>();
  readonly defaults = new Map<string, number>();
  readonly #counted = new Map<FieldNode, Omit<ArgumentValues, "defaults">>();

  /** Throws a GraphQLError if the document itself has too many. */
  count(field: FieldNode): void {
    if (!field.arguments || field.arguments.length === 0) return;
    const own = this.#counted.get(field) ?? valuesIn(field);
    this.#counted.set(field, own);
    this.literals += own.literals;
    for (const [name, count] of own.uses) this.uses.set(name, (this.uses.get(name) ?? 0) + count);
    refuseMore(this.literals);
  }

  /** Several operations may have a variable of the same name. */
  countDefault({ variable: { name }, defaultValue }: VariableDefinitionNode): void {
    const size = defaultValue ? sizeIn(defaultValue, () => {}) : 0;
    this.defaults.set(name.value, Math.max(size, this.defaults.get(name.value) ?? 0));
  }
}

/** Throws a GraphQLError if there are too many values, those of each variable counted for each use of it. */
export function refuseManyValues(
  { literals, uses, defaults }: ArgumentValues,
  variables: Readonly<Record<string, unknown>>,
): void {
  let count = literals;
  for (const [name, used] of uses) {
    count += used * (Object.hasOwn(variables, name) ? sizeOf(variables[name]) : (defaults.get(name) ?? 0));
    refuseMore(count);
  }
}

function refuseMore(count: number): void {
  if (count > MAX_VALUES)
    throw invalid(
      `the arguments have ${count} values, each use of a variable counted; the maximum is ${MAX_VALUES}: split the operation`,
    );
}

function sizeOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  let size = 0;
  for (const item of Array.isArray(value) ? value : Object.values(value)) size += sizeOf(item);
  return size;
}

function valuesIn({ arguments: given = [] }: FieldNode): Omit<ArgumentValues, "defaults"> {
  const uses = new Map<string, number>();
  const use = (name: string) => uses.set(name, (uses.get(name) ?? 0) + 1);
  return { literals: given.reduce((sum, { value }) => sum + sizeIn(value, use), 0), uses };
}

/** The values of a literal without those of the variables in it, which are visited. */
function sizeIn(value: ValueNode, use: (variable: string) => void): number {
  if (value.kind === Kind.LIST) return value.values.reduce((sum, item) => sum + sizeIn(item, use), 0);
  if (value.kind === Kind.OBJECT) return value.fields.reduce((sum, field) => sum + sizeIn(field.value, use), 0);
  if (value.kind !== Kind.VARIABLE) return 1;
  use(value.name.value);
  return 0;
}

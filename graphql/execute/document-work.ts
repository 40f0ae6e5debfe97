import {
  type DocumentNode,
  type FragmentDefinitionNode,
  Kind,
  type SelectionNode,
  type SelectionSetNode,
} from "postgraphile/graphql";
import { invalid } from "./conditions.ts";
import { ArgumentCounter, type ArgumentValues, MAX_INTROSPECTION_FIELDS, MAX_SELECTION_SETS } from "./document-size.ts";

/** A plan compares the variables in `@include` and `@skip` with each other. */
const MAX_VARIABLES = 200;
const MAX_DIRECTIVES = 500;
const MAX_DEFINITIONS = 500;
/** The rules of validation compare fields of the same name, and fragments, that are merged. These take 10 to 25 ms. */
const MAX_PAIRS = 25_000;
/** Fields, fragments and inline fragments of all operations together, for each field that one operation may have. */
const SELECTIONS_PER_FIELD = 10;

/**
 * Throws a GraphQLError for a document whose operations are within the limits on fields, but which would take long to validate and to
 * plan. `maxFields` is the limit of one operation. Returns the values in its arguments.
 */
export function refuseSlowDocument({ definitions }: DocumentNode, maxFields: number): ArgumentValues {
  refuseMore("operations and fragments", definitions.length, MAX_DEFINITIONS);
  const fragments = definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
  const operations = definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
  const variables = operations.flatMap(({ variableDefinitions = [] }) => variableDefinitions);
  refuseMore("variables", variables.length, MAX_VARIABLES);

  const work = new Work(fragments, SELECTIONS_PER_FIELD * Math.max(maxFields, MAX_INTROSPECTION_FIELDS));
  for (const variable of variables) work.values.countDefault(variable);
  for (const { directives } of [...operations, ...fragments, ...variables]) work.countDirectives(directives);
  for (const { selectionSet } of operations) work.merge([selectionSet]);
  // The rules read fragments that no operation uses too.
  for (const { name, selectionSet } of fragments) if (!work.uses(name.value)) work.merge([selectionSet]);
  return work.values;
}

function refuseMore(what: string, count: number, max: number): void {
  if (count > max) throw invalid(`the document has ${count} ${what}; the maximum is ${max}: split it`);
}

/** What is merged into one selection set: the selection sets of each field, by its name in the response. */
type Merged = { readonly fields: Map<string, (SelectionSetNode | undefined)[]>; readonly fragments: Set<string> };

/** Merges selection sets as the execution does, and counts what they hold. */
class Work {
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #maxSelections: number;
  readonly #used = new Set<string>();
  readonly values = new ArgumentCounter();
  #selections = 0;
  #directives = 0;
  #pairs = 0;

  constructor(fragments: readonly FragmentDefinitionNode[], maxSelections: number) {
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment]));
    this.#maxSelections = maxSelections;
  }

  uses(fragment: string): boolean {
    return this.#used.has(fragment);
  }

  countDirectives(directives: SelectionNode["directives"] = []): void {
    this.#directives += directives.length;
    refuseMore("directives", this.#directives, MAX_DIRECTIVES);
  }

  /** `level` is the level of the sets. A cycle of fragments, which validation refuses afterwards, ends at the deepest level. */
  merge(sets: readonly (SelectionSetNode | undefined)[], level = 1): void {
    if (level > MAX_SELECTION_SETS) return;
    const merged: Merged = { fields: new Map(), fragments: new Set() };
    for (const set of sets) if (set) this.#collect(set, merged);
    this.#countPairs(merged.fragments.size);
    for (const inner of merged.fields.values()) {
      this.#countPairs(inner.length);
      this.merge(inner, level + 1);
    }
  }

  #collect({ selections }: SelectionSetNode, merged: Merged): void {
    for (const selection of selections) {
      this.#countSelection(selection);
      if (selection.kind === Kind.FIELD) {
        this.values.count(selection);
        const name = (selection.alias ?? selection.name).value;
        const same = merged.fields.get(name) ?? [];
        merged.fields.set(name, same);
        same.push(selection.selectionSet);
      } else if (selection.kind === Kind.INLINE_FRAGMENT) {
        this.#collect(selection.selectionSet, merged);
      } else if (!merged.fragments.has(selection.name.value)) {
        merged.fragments.add(selection.name.value);
        this.#used.add(selection.name.value);
        const fragment = this.#fragments.get(selection.name.value);
        if (fragment) this.#collect(fragment.selectionSet, merged);
      }
    }
  }

  #countSelection({ directives }: SelectionNode): void {
    this.countDirectives(directives);
    refuseMore("fields and fragments, with fragments expanded", ++this.#selections, this.#maxSelections);
  }

  #countPairs(count: number): void {
    this.#pairs += (count * (count - 1)) / 2;
    refuseMore("pairs of merged fragments, and of merged fields with the same name", this.#pairs, MAX_PAIRS);
  }
}

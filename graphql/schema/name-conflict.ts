import { type Finding, sentenceOf } from "../../db/findings/finding.ts";
import type { Labels, PgObject, SmartTag } from "./pg-objects.ts";

export const NAME_CONFLICT = "graphql-name-conflict";

/** A name conflict as the build reports it: of two objects, or of one object with a part of every schema. */
export type Clash = { readonly name: string; readonly objects: readonly PgObject[] };

/** The tags that give an object its name. */
const NAMING_TAGS: Readonly<Record<PgObject["kind"], RegExp>> = {
  table: /^@name\b/,
  type: /^@name\b/,
  column: /^@name\b/,
  constraint: /^@\w*fieldName\b/i,
  function: /^@(?:fieldName|name)\b/,
};

/**
 * Two objects lead to the same name. If the smart tag of one of them is the cause, GraphQL ignores the tag. Otherwise the newer
 * object is left out, and gets another name if the DBA wants it.
 */
export class NameConflict extends Error {
  readonly newer: PgObject;
  readonly finding: Finding;
  readonly #clash: Clash;
  readonly #labels: Labels;

  constructor(clash: Clash, labels: Labels) {
    const { name, objects } = clash;
    const [newer, older] = objects.toSorted((a, b) => labels.ageOf(b) - labels.ageOf(a)) as [PgObject, PgObject?];
    const reason = older
      ? `it and ${labels.labelOf(older)} lead to the same GraphQL ${name}, and GraphQL leaves one of them out`
      : `it leads to the GraphQL ${name}, which every schema has, and GraphQL leaves it out`;
    const object = labels.labelOf(newer);
    const finding: Finding = { rule: NAME_CONFLICT, level: "error", object, reason, fix: labels.renaming(newer) };
    super(sentenceOf(finding));
    this.newer = newer;
    this.finding = finding;
    this.#clash = clash;
    this.#labels = labels;
  }

  /** The smart tag that names one of the two objects. A new tag takes precedence over that of the newer object. */
  tagAmong(tags: readonly SmartTag[], isNew: (tag: SmartTag) => boolean): SmartTag | undefined {
    const naming = tags.filter(({ tag, object }) => NAMING_TAGS[object.kind].test(tag) && this.#other(object) !== null);
    return naming.find(isNew) ?? naming.find(({ object }) => object.label === this.newer.label);
  }

  /** Why GraphQL ignores the tag of this object. */
  reasonToIgnore(object: PgObject): string {
    const other = this.#other(object);
    const { name } = this.#clash;
    return other
      ? `${this.#labels.labelOf(other)} leads to the GraphQL ${name} too`
      : `every schema has the GraphQL ${name}`;
  }

  /** The other object; undefined if there is none, null if `object` is not one of the two. */
  #other(object: PgObject): PgObject | null | undefined {
    const { objects } = this.#clash;
    if (objects.every(({ label }) => label !== object.label)) return null;
    return objects.find(({ label }) => label !== object.label);
  }
}

import { isValidBehaviorString } from "postgraphile/graphile-build";
import type { ObjectId, SmartTag } from "./pg-objects.ts";

const nameOf = ({ tag }: SmartTag): string => /^@(\S+)/.exec(tag)![1]!;
const argumentOf = (tag: SmartTag): string => tag.tag.slice(nameOf(tag).length + 1).trim();

const BEHAVIOR = /^behaviou?rs?$/;
const NAMING = /^(name|\w*fieldName)$/i;

/** The tags that PostGraphile would refuse whatever the database has, with the reason. */
export function invalidTags(tags: readonly SmartTag[]): Map<ObjectId, string> {
  const invalid = new Map<ObjectId, string>();
  const known = new Set<string>();
  for (const tag of tags) {
    const name = nameOf(tag);
    const key = `${tag.object.label} ${name}`;
    if (BEHAVIOR.test(name) && !isValidBehaviorString(argumentOf(tag)))
      invalid.set(tag.id, "it is not a list of behaviors, such as -insert or +filterBy");
    if (!NAMING.test(name)) continue;
    if (argumentOf(tag) === "") invalid.set(tag.id, "it has no name");
    else if (known.has(key)) invalid.set(tag.id, "the object has this tag twice");
    known.add(key);
  }
  return invalid;
}

/** The table with `@enum` that the login cannot read, and the statements that let it; null for another error of PostGraphile. */
export function unreadEnum(
  message: string,
): { readonly schema: string; readonly name: string; readonly fix: string } | null {
  const found =
    /could not read from enum table "(.+?)"\."(.+?)",.*?(GRANT USAGE ON SCHEMA .+?;)\s*(GRANT SELECT ON .+?;)/s;
  const [, schema, name, usage, select] = found.exec(message) ?? [];
  return select === undefined ? null : { schema: schema!, name: name!, fix: `${usage}\n${select}` };
}

/**
 * The tags that an error of PostGraphile can be about. Those that it quotes best, by the tag, its value and its object; if it quotes
 * none, all of those whose values `invalidTags` has not checked.
 */
export function suspectsOf(message: string, tags: readonly SmartTag[]): readonly SmartTag[] {
  const table = unreadEnum(message);
  if (table)
    return tags.filter(
      (tag) => nameOf(tag) === "enum" && tag.object.schema === table.schema && tag.object.name === table.name,
    );
  const unchecked = tags.filter((tag) => !BEHAVIOR.test(nameOf(tag)) && !NAMING.test(nameOf(tag)));
  const quotes = (tag: SmartTag): number => {
    const { schema, name } = tag.object;
    if (!message.includes(`@${nameOf(tag)}`)) return 0;
    const parts = [argumentOf(tag), name, `${schema}.${name}`];
    return 1 + parts.filter((part) => part !== "" && message.includes(part)).length;
  };
  const most = Math.max(0, ...unchecked.map(quotes));
  return unchecked.filter((tag) => quotes(tag) === most);
}

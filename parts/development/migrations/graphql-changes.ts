import {
  BreakingChangeType,
  findBreakingChanges,
  findDangerousChanges,
  type GraphQLSchema,
} from "postgraphile/graphql";

/** A difference between two schemas; `field` is the one that it is about, as `Note.title`, or a type. */
export type SchemaChange = { readonly text: string; readonly isBreaking: boolean; readonly field: string };

/** What is new in the reverse direction has been removed. */
const ADDITIONS: ReadonlySet<string> = new Set([BreakingChangeType.TYPE_REMOVED, BreakingChangeType.FIELD_REMOVED]);

/** What changes for clients of GraphQL. A schema is null if there is nothing to serve. */
export function schemaChanges(before: GraphQLSchema | null, after: GraphQLSchema | null): readonly SchemaChange[] {
  if (before === null || after === null)
    return before === after
      ? []
      : [
          {
            text: `the schema was ${before === null ? "added" : "removed"}`,
            isBreaking: after === null,
            field: "Query",
          },
        ];
  const breaking = findBreakingChanges(before, after).map(({ description }) => changeOf(description, true));
  const others = findDangerousChanges(before, after).map(({ description }) => changeOf(description, false));
  const added = findBreakingChanges(after, before)
    .filter(({ type }) => ADDITIONS.has(type))
    .map(({ description }) => changeOf(description.replace(/was removed\.?$/, "was added"), false));
  return [...breaking, ...added, ...others];
}

/** `Note.title was removed.` → `Note.title` */
const changeOf = (description: string, isBreaking: boolean): SchemaChange => ({
  text: description.replace(/\.$/, ""),
  isBreaking,
  field: /\b[A-Z]\w*(?:\.\w+)?/.exec(description)?.[0] ?? "",
});

import type {} from "postgraphile";

/** `Article.author` without `Article.authorId`: a foreign key is read as the row it references. Inputs keep the column. */
export const HideForeignKeyColumnsPlugin: GraphileConfig.Plugin = {
  name: "HideForeignKeyColumnsPlugin",
  version: "1.0.0",
  schema: {
    entityBehavior: {
      pgCodecAttribute: {
        inferred: {
          after: ["inferred"],
          callback(behavior, [codec, attributeName], build) {
            const relations = Object.values(build.input.pgRegistry.pgRelations[codec.name] ?? {});
            const isForeignKey = relations.some(
              (relation) =>
                !relation.isReferencee && (relation.localAttributes as readonly string[]).includes(attributeName),
            );
            return isForeignKey ? [behavior, "-select"] : behavior;
          },
        },
      },
    },
  },
};

import type {} from "postgraphile";

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

/** Names alone: `articles`, `article(id:)`, `author`, `CreateArticleInput`, `Time`, as the contract spells them. */
export const ContractNamesPlugin: GraphileConfig.Plugin = {
  name: "ContractNamesPlugin",
  version: "1.0.0",
  inflection: {
    replace: {
      builtin(previous, options, name) {
        if (name === "Cursor") return "String";
        if (name === "Datetime") return options.schema?.timeScalar ?? "Time";
        // PostgreSQL's time of day makes way for the contract's scalar.
        if (name === "Time") return "TimeOfDay";
        return previous!(name);
      },
      listField: (_previous, _options, base) => base,
      connectionField: (_previous, _options, base) => base,
      // Query.articles; the stock name is allArticles.
      _allRows(_previous, _options, resource) {
        return this.camelCase(this.pluralize(this._singularizedResourceName(resource)));
      },
      // Query.article(id:) for the primary key, Query.articleBySlug(slug:) for other unique keys.
      rowByUnique(previous, _options, details) {
        return details.unique.isPrimary ? lowerFirst(this.tableType(details.resource.codec)) : previous!(details);
      },
      // The stock name of a column "id" is rowId, which leaves "id" to Relay's Node; there is none here.
      _attributeName: (previous, _options, details) => previous!({ ...details, skipRowId: true }),
      // author_id → author; anything else keeps the long stock name.
      _singleRelationRaw(previous, _options, details) {
        const relation = details.registry.pgRelations[details.codec.name]![details.relationName]!;
        const columns = relation.localAttributes as readonly string[];
        const reference = columns.length === 1 ? /^(.+)_id$/.exec(columns[0]!) : null;
        const isNamed = typeof relation.extensions?.tags?.fieldName === "string";
        return reference && !isNamed ? reference[1]! : previous!(details);
      },
      // users ← articles.author_id is "articles" where it is the only key between the two tables.
      _manyRelationRaw(previous, _options, details) {
        const relations = details.registry.pgRelations[details.codec.name]!;
        const relation = relations[details.relationName]!;
        const others = Object.values(relations).filter(
          (other) => other!.isReferencee && other!.remoteResource === relation.remoteResource,
        );
        const isNamed = typeof relation.extensions?.tags?.foreignFieldName === "string";
        return others.length === 1 && !isNamed
          ? this.pluralize(this.tableType(relation.remoteResource.codec))
          : previous!(details);
      },
      inputType: (_previous, _options, typeName) => `Create${typeName}Input`,
      patchType: (_previous, _options, typeName) => `Update${typeName}Input`,
    },
  },
};

declare global {
  namespace GraphileBuild {
    interface SchemaOptions {
      /** Name of the scalar for timestamps: Time or DateTime. */
      timeScalar?: string;
    }
  }
}

import type {} from "postgraphile";

const lowerFirst = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

const OF_PAGES: ReadonlySet<string> = new Set(["first", "last", "before", "after", "offset", "filter", "orderBy"]);

/** The names of the contract: `posts`, `post(id:)`, `author`, `CreatePostInput`, `Time`. */
export const ContractNamesPlugin: GraphileConfig.Plugin = {
  name: "ContractNamesPlugin",
  version: "1.0.0",
  inflection: {
    replace: {
      builtin(previous, _options, name) {
        if (name === "Cursor") return "String";
        if (name === "Datetime") return "Time";
        // The contract's scalar Time is a timestamp, so the type time of Postgres needs another name.
        if (name === "Time") return "TimeOfDay";
        return previous!(name);
      },
      listField: (_previous, _options, base) => base,
      connectionField: (_previous, _options, base) => base,
      // One type for all tables that a table refers to.
      filterManyType(_previous, _options, _table, { codec }) {
        return this.upperCamelCase(`${this.tableType(codec)}-to-many-filter`);
      },
      // Query.posts is a connection. If a smart tag makes it a list, the connection is Query.postsConnection.
      allRowsConnection(_previous, _options, resource) {
        const { behavior } = resource.extensions?.tags ?? {};
        const hasList = [behavior].flat().some((tag) => typeof tag === "string" && /\+query:resource:list/.test(tag));
        return hasList ? `${this._allRows(resource)}Connection` : this._allRows(resource);
      },
      // User.posts is a list, User.postsConnection the same rows in pages.
      manyRelationConnection(previous, _options, details) {
        const { tags } = details.registry.pgRelations[details.codec.name]![details.relationName]!.extensions ?? {};
        return tags?.foreignConnectionFieldName ? previous!(details) : `${this._manyRelation(details)}Connection`;
      },
      // Those of a page have their names in the fields of all functions that return a set.
      argument(previous, _options, details) {
        const name = previous!(details);
        const { isUnique, isMutation } = details.resource;
        return OF_PAGES.has(name) && !isUnique && !isMutation ? `${name}_` : name;
      },
      // Query.posts instead of allPosts. A name without a plural is that of the row: Query.staff(id:) and Query.allStaff.
      _allRows(previous, _options, resource) {
        const plural = this.camelCase(this.pluralize(this._singularizedResourceName(resource)));
        const isOfRow = plural === lowerFirst(this.tableType(resource.codec));
        return isOfRow && resource.uniques.some((unique: { isPrimary?: boolean }) => unique.isPrimary)
          ? previous!(resource)
          : plural;
      },
      // Query.post(id:) for the primary key, Query.postBySlug(slug:) for other unique keys.
      rowByUnique(previous, _options, details) {
        return details.unique.isPrimary ? lowerFirst(this.tableType(details.resource.codec)) : previous!(details);
      },
      // PostGraphile names a column "id" rowId to reserve "id" for the Node interface, which this schema does not have.
      _attributeName: (previous, _options, details) => previous!({ ...details, skipRowId: true }),
      // author_id → author. Other keys keep the long name of PostGraphile.
      _singleRelationRaw(previous, _options, details) {
        const relation = details.registry.pgRelations[details.codec.name]![details.relationName]!;
        const columns = relation.localAttributes as readonly string[];
        const reference = columns.length === 1 ? /^(.+)_id$/.exec(columns[0]!) : null;
        const isNamed = typeof relation.extensions?.tags?.fieldName === "string";
        return reference && !isNamed ? reference[1]! : previous!(details);
      },
      // User.posts for posts.author_id, if it is the only foreign key between the two tables.
      _manyRelationRaw(previous, _options, details) {
        const relations = details.registry.pgRelations[details.codec.name]!;
        const relation = relations[details.relationName]!;
        const others = Object.values(relations).filter(
          (other) => other!.isReferencee && other!.remoteResource.codec === relation.remoteResource.codec,
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

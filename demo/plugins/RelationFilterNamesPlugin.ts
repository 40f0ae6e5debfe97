/** `ArticleToManyCommentFilter`, which clients may have in their variables: a type for each pair of tables, not for each table. */
export const RelationFilterNamesPlugin: GraphileConfig.Plugin = {
  name: "RelationFilterNamesPlugin",
  version: "1.0.0",
  inflection: {
    replace: {
      filterManyType(_previous, _options, table, { codec }) {
        return this.upperCamelCase(`${this.tableType(table)}-to-many-${this.tableType(codec)}-filter`);
      },
    },
  },
};

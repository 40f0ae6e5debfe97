declare global {
  namespace GraphileBuild {
    /** The table that an input is a row of, and the column of each of its fields. */
    interface InputObjectTypeExtensions {
      table?: { readonly schema: string; readonly name: string };
    }
  }
}

/** Input types know their table, and their fields the columns, so that errors about columns can name the fields. */
export const InputColumnsPlugin: GraphileConfig.Plugin = {
  name: "InputColumnsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLInputObjectType(config, _build, { scope: { pgCodec } }) {
        const pg = pgCodec?.attributes && pgCodec.extensions?.pg;
        if (!pg) return config;
        const table = { schema: pg.schemaName, name: pg.name };
        return { ...config, extensions: { ...config.extensions, table } };
      },
      GraphQLInputObjectType_fields_field(field, _build, { scope: { pgCodec, pgAttribute } }) {
        const [column] = Object.entries(pgCodec?.attributes ?? {}).find(([, each]) => each === pgAttribute) ?? [];
        return column === undefined ? field : { ...field, extensions: { ...field.extensions, column } };
      },
    },
  },
};

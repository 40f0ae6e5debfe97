import { type PgCodec, TYPES } from "postgraphile/@dataplan/pg";

declare global {
  namespace GraphileBuild {
    /** The table that an input is a row of, and the column of each of its fields. */
    interface InputObjectTypeExtensions {
      table?: { readonly schema: string; readonly name: string };
      tableCodec?: PgCodec;
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
        return { ...config, extensions: { ...config.extensions, table, tableCodec: pgCodec } };
      },
      GraphQLInputObjectType_fields_field(field, _build, { scope: { pgCodec, pgAttribute } }) {
        const [column] = Object.entries(pgCodec?.attributes ?? {}).find(([, each]) => each === pgAttribute) ?? [];
        return column === undefined ? field : { ...field, extensions: { ...field.extensions, column } };
      },
    },
  },
};

/**
 * The values of a row by column, as Postgres reads them from JSON: an interval, a range, a list or a composite value is the text that
 * a statement would have, JSON is itself.
 */
export const recordOf = (
  { attributes = {} }: PgCodec,
  row: Readonly<Record<string, unknown>>,
): Record<string, unknown> =>
  Object.fromEntries(Object.entries(row).map(([column, value]) => [column, textOf(attributes[column]!.codec, value)]));

const JSON_CODECS: ReadonlySet<PgCodec> = new Set<PgCodec>([TYPES.json, TYPES.jsonb]);

function textOf(codec: PgCodec, value: unknown): unknown {
  if (codec.domainOfCodec) return textOf(codec.domainOfCodec, value);
  return value === null || JSON_CODECS.has(codec) ? value : codec.toPg(value as never);
}

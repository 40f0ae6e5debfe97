import { pgSelectFromRecords } from "postgraphile/@dataplan/pg";
import { inhibitOnNull } from "postgraphile/grafast";

/** `MutationResult.errors: [FieldError!]`: a NULL array of records becomes null; PostGraphile itself returns []. */
export const NullRecordArraysPlugin: GraphileConfig.Plugin = {
  name: "NullRecordArraysPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const attribute = scope.pgFieldAttribute;
        const itemCodec = attribute?.codec.arrayOfCodec;
        if (!itemCodec?.attributes || attribute!.notNull) return field;

        const name = Object.entries(scope.pgCodec?.attributes ?? {}).find(([, other]) => other === attribute)?.[0];
        const resource = build.pgTableResource(itemCodec as any, false);
        if (!name || !resource) return field;
        return {
          ...field,
          plan($row: any) {
            const $items = pgSelectFromRecords(resource as any, inhibitOnNull($row.get(name)) as any);
            $items.setTrusted();
            return $items;
          },
        };
      },
    },
  },
};

import { type PgResource, PgSelectStep, pgSelectFromRecords } from "postgraphile/@dataplan/pg";
import { inhibitOnNull } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";

type Plan = ($row: any) => any;

/**
 * `MutationResult.errors: [FieldError!]`, `Gauge.span: Span`: NULL becomes null, also an array, for which PostGraphile itself returns
 * []. A record whose columns are all null is a record.
 */
export const RecordColumnsPlugin: GraphileConfig.Plugin = {
  name: "RecordColumnsPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const attribute = scope.pgFieldAttribute;
        const codec = attribute?.codec.arrayOfCodec ?? attribute?.codec;
        if (!codec?.attributes || attribute!.notNull) return field;

        const name = Object.entries(scope.pgCodec?.attributes ?? {}).find(([, other]) => other === attribute)?.[0];
        const resource = build.pgTableResource(codec as any, false);
        if (!name || !resource) return field;
        return { ...field, plan: attribute!.codec.arrayOfCodec ? array(resource, name) : record(resource, name) };
      },
    },
  },
};

const array =
  (resource: PgResource, name: string): Plan =>
  ($row) => {
    const $items = pgSelectFromRecords(resource as any, inhibitOnNull($row.get(name)) as any);
    $items.setTrusted();
    return $items;
  };

/** As pgSelectSingleFromRecord of PostGraphile, but that selects a row of nulls where the record is NULL. */
const record =
  (resource: PgResource, name: string): Plan =>
  ($row) => {
    const $record = $row.get(name);
    const $select = new PgSelectStep({
      resource: resource as any,
      identifiers: [],
      from: {
        callback($query: any) {
          const value = $query.placeholder($record, resource.codec);
          return sql`(select (${value}).* where (${value}) is distinct from null)`;
        },
      } as any,
      joinAsLateral: true,
    } as any);
    $select.setTrusted();
    return $select.single();
  };

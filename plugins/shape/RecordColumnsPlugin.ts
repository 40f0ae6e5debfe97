import { type PgResource, PgSelectStep } from "postgraphile/@dataplan/pg";
import { each, type Step } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { guarded, guardOf } from "./row-guards.ts";

/**
 * `MutationResult.errors: [FieldError!]`, `Gauge.span: Span`: NULL becomes null, also an array, for which PostGraphile itself returns
 * [], and an item of one. A record whose columns are all null is a record.
 *
 * A record that one statement returns and the next one reads, such as the row that a mutation has written and a function gets, stays the
 * text that Postgres wrote: it has every column, also one that was added since the schema was built. A guard precedes it.
 */
export const RecordColumnsPlugin: GraphileConfig.Plugin = {
  name: "RecordColumnsPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_PgCodec(_info, { pgCodec }) {
        if (!pgCodec.attributes) return;
        const { toPg } = pgCodec;
        Object.assign(pgCodec, {
          castFromPg: pgCodec.isAnonymous ? asText : (row: SQL) => sql`(${guardOf(pgCodec)} || (${row})::text)`,
          listCastFromPg: asText,
          fromPg: (text: string) => guarded(pgCodec, text),
          // An input is an object.
          toPg: (value: unknown) => (typeof value === "string" ? value : toPg(value as never)),
        });
      },
    },
  },
  schema: {
    hooks: {
      GraphQLObjectType_fields_field(field, build, { scope }) {
        const attribute = scope.pgFieldAttribute;
        const codec = attribute?.codec.arrayOfCodec ?? attribute?.codec;
        const isArray = attribute?.codec.arrayOfCodec !== undefined;
        if (!codec?.attributes || (attribute!.notNull && !isArray)) return field;

        const name = Object.entries(scope.pgCodec?.attributes ?? {}).find(([, other]) => other === attribute)?.[0];
        const resource = build.pgTableResource(codec as any, false);
        if (!name || !resource) return field;
        const item = record(resource);
        const plan = ($row: any) => (isArray ? each($row.get(name), item) : item($row.get(name)));
        return { ...field, plan };
      },
    },
  },
};

const asText = (value: SQL): SQL => sql`(${value})::text`;

/** As pgSelectSingleFromRecord of PostGraphile, but that selects a row of nulls where the record is NULL. */
const record = (resource: PgResource) => ($record: Step) => {
  const $select = new PgSelectStep({
    resource: resource as any,
    identifiers: [],
    from: {
      callback($query: any) {
        const value = $query.placeholder($record, resource.codec);
        // Not select (…).*: its rows are not of the type of the record, which functions of a row need.
        return sql`unnest(case when (${value}) is distinct from null then array[${value}] end)`;
      },
    } as any,
    joinAsLateral: true,
  } as any);
  $select.setTrusted();
  return $select.single();
};

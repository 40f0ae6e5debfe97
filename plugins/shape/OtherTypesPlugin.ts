import type { PgCodec } from "postgraphile/@dataplan/pg";
import { TYPES } from "postgraphile/@dataplan/pg";
import { gatherConfig } from "postgraphile/graphile-build";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { parseExactly } from "../../db/exact-numbers.ts";
import { parseLiteral } from "./JsonScalarPlugin.ts";

const TEXT = "PgText";
const GEO_JSON = "GeoJSON";

const geoJson = {
  castFromPg: (value: SQL) => sql`to_json(${value})::text`,
  // As the text of an array of geometries: its delimiter is a colon.
  listCastFromPg: (values: SQL) => {
    const item = sql.identifier(Symbol("item"));
    const quoted = sql`'"' || replace(replace(to_json(${item})::text, '\\', '\\\\'), '"', '\\"') || '"'`;
    const items = sql`coalesce(string_agg(coalesce(${quoted}, 'NULL'), ':'), '')`;
    return sql`(case when ${values} is not null then (select '{' || ${items} || '}' from unnest(${values}) as ${item}) end)`;
  },
  fromPg: parseExactly,
  toPg: (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value)),
};

/**
 * Types that PostGraphile leaves out have the values of the table interface: `geometry` of PostGIS is GeoJSON, and `tsvector`, `pg_lsn`,
 * multiranges and the types of extensions are text, which Postgres checks.
 */
export const OtherTypesPlugin: GraphileConfig.Plugin = {
  name: "OtherTypesPlugin",
  version: "1.0.0",
  after: ["PgCodecsPlugin", "PgLtreePlugin"],
  gather: gatherConfig({
    hooks: {
      async pgCodecs_findPgCodec(info, event) {
        const { pgType } = event;
        if (event.pgCodec || !["b", "m"].includes(pgType.typtype!) || pgType.typcategory === "A") return;
        const schemaName = pgType.getNamespace()!.nspname;
        const postgis = await info.helpers.pgIntrospection.getExtensionByName(event.serviceName, "postgis");
        const isGeometry = pgType.typname === "geometry" && pgType.typnamespace === postgis?.extnamespace;
        event.pgCodec = {
          name: info.inflection.typeCodecName({ pgType, serviceName: event.serviceName }),
          sqlType: info.helpers.pgBasics.identifier(schemaName, pgType.typname),
          toPg: String,
          fromPg: (text: string) => text,
          ...(isGeometry && geoJson),
          attributes: undefined,
          executor: null,
          extensions: {
            oid: pgType._id,
            pg: { serviceName: event.serviceName, schemaName, name: pgType.typname },
            graphqlType: isGeometry ? GEO_JSON : TEXT,
          },
        } as never;
      },
    },
  }),
  schema: {
    entityBehavior: {
      pgCodecAttribute: {
        inferred: {
          // Before the rules about indexes and GRANTs, so that they apply to these columns too.
          after: ["inferred"],
          before: ["postInferred"],
          callback: (behavior, [codec, attribute]) => {
            const { arrayOfCodec, domainOfCodec, ...own } = codec.attributes[attribute]!.codec;
            const { name, extensions } = arrayOfCodec ?? domainOfCodec ?? own;
            // The operators of an extension are found only in its schema.
            if (extensions?.graphqlType && extensions.pg?.schemaName !== "pg_catalog")
              return [behavior, "-attribute:filterBy", "-attribute:orderBy"];
            if (!HIDDEN.has(name)) return behavior;
            return [behavior, "attribute:base", "attribute:select", "attribute:insert", "attribute:update"];
          },
        },
      },
    },
    hooks: {
      init: {
        before: ["PgCodecs"],
        callback(_, build) {
          const codecs = (Object.values(build.pgCodecs) as PgCodec[]).filter((codec) => graphqlTypeOf(codec));
          const has = (type: string) => codecs.some((codec) => graphqlTypeOf(codec) === type);
          const register = (name: string, description: string, more: object) => {
            if (has(name)) build.registerScalarType(name, {}, () => ({ description, ...more }), "OtherTypesPlugin");
          };
          register(TEXT, "A value of another type of PostgreSQL, as the text that PostgreSQL writes.", {});
          register(GEO_JSON, "A geometry as an object of GeoJSON (RFC 7946).", { parseLiteral });
          for (const codec of codecs) build.setGraphQLTypeForPgCodec(codec, ["input", "output"], graphqlTypeOf(codec)!);
          return _;
        },
      },
    },
  },
};

/** PostGraphile hides them, because they are often there only for a search. */
const HIDDEN: ReadonlySet<string> = new Set([TYPES.tsvector.name, TYPES.tsquery.name]);

const graphqlTypeOf = (codec: PgCodec): string | undefined => codec.extensions?.graphqlType;

declare global {
  namespace DataplanPg {
    interface PgCodecExtensions {
      /** The scalar of a type for which PostGraphile has none. */
      graphqlType?: string;
    }
  }
}

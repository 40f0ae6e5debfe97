import { type PgCodec, type PgResource, pgClassExpression, pgSelect, TYPES } from "postgraphile/@dataplan/pg";
import { constant, list, markSyncAndSafe, type Step } from "postgraphile/grafast";
import { sql } from "postgraphile/pg-sql2";
import { ID_CODECS } from "./IdColumnsPlugin.ts";

type Table = PgResource<any, any, any, any, any>;
type Handler = Parameters<NonNullable<GraphileBuild.Build["registerNodeIdHandler"]>>[0];

/** `["Post", "12"]` as base64. */
const NODE_IDS = {
  name: "base64JSON",
  encode: markSyncAndSafe((value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64")),
  /** Null for a text that is no node id. */
  decode: markSyncAndSafe((text: string): unknown => {
    const value = parsed(Buffer.from(text, "base64").toString());
    return Array.isArray(value) && value.every((part) => typeof part !== "object") ? value : null;
  }),
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * `GRAPHQL_EXTRAS=node`: each row with a primary key has a `nodeId: ID!`, and `node(id:)` finds it, as Relay expects. An
 * invalid id finds nothing. PostGraphile's name for both is `id`, which the contract needs for the key.
 */
const NodeIdsPlugin: GraphileConfig.Plugin = {
  name: "NodeIdsPlugin",
  version: "1.0.0",
  after: ["NodePlugin"],
  before: ["PgTableNodePlugin"],
  inflection: { replace: { nodeIdFieldName: () => "nodeId" } },
  schema: {
    hooks: {
      build: {
        after: ["NodePlugin"],
        callback(build) {
          const register = build.registerNodeIdHandler!;
          let tables: ReadonlyMap<string, Table> | undefined;
          build.registerNodeIdHandler = (handler) => {
            tables ??= tablesByType(build as GraphileBuild.Build);
            register({ ...handler, ...ofKey(handler.typeName, tables.get(handler.typeName)!) });
          };
          return build;
        },
      },
      init(_, build) {
        build.registerNodeIdCodec!(NODE_IDS);
        return _;
      },
      GraphQLObjectType_fields_field(field, _build, { scope }) {
        if (!scope.isRootNodeField) return field;
        const { nodeId, ...args } = field.args!;
        return { ...field, args: { ...args, id: nodeId! }, plan: (_$root, given) => given.getRaw("id") };
      },
    },
  },
};

const tablesByType = (build: GraphileBuild.Build): ReadonlyMap<string, Table> =>
  new Map(
    (Object.values(build.pgResources) as Table[])
      .filter(({ parameters, codec }) => !parameters && codec.attributes)
      .map((table) => [build.inflection.tableType(table.codec), table]),
  );

const ids: ReadonlySet<PgCodec> = new Set(ID_CODECS.values());

/** An id has the key as text. PostGraphile's own has the values as they are read, and cannot find the row of an object such as an interval. */
function ofKey(typeName: string, table: Table): Pick<Handler, "plan" | "get"> {
  const key: readonly string[] = table.uniques.find((unique: { isPrimary?: boolean }) => unique.isPrimary).attributes;
  const codecOf = (attribute: string): PgCodec => table.codec.attributes[attribute].codec;
  return {
    plan($row: any) {
      const alias = "getClassStep" in $row ? $row.getClassStep().alias : $row.alias;
      const textOf = (attribute: string): Step =>
        pgClassExpression($row, TYPES.text, true)`(${alias}.${sql.identifier(attribute)})::text`;
      return list([constant(typeName, false), ...key.map(textOf)]) as never;
    },
    get(spec: Readonly<Record<string, Step>>) {
      const identifiers = key.map((attribute) => {
        const codec = codecOf(attribute);
        return {
          step: spec[attribute]!,
          codec: ids.has(codec) ? codec : { ...codec, toPg: String },
          matches: (alias: unknown) => sql`${alias as never}.${sql.identifier(attribute)}`,
        };
      });
      return pgSelect({ resource: table, identifiers } as never).single();
    },
  };
}

/** What PostGraphile adds beyond `nodeId` and `node(id:)`. */
const EXTRAS = [
  "NodeAccessorPlugin",
  "PgNodeIdAttributesPlugin",
  "NodeIdCodecBase64JSONPlugin",
  "NodeIdCodecPipeStringPlugin",
  "RegisterQueryNodePlugin",
];

export const nodeIdsPreset: GraphileConfig.Preset = { disablePlugins: EXTRAS as never, plugins: [NodeIdsPlugin] };

/** The contract has no Node interface and no nodeId. */
export const withoutNodeIds: GraphileConfig.Preset = {
  disablePlugins: [...EXTRAS, "NodePlugin", "AddNodeInterfaceToSuitableTypesPlugin", "PgTableNodePlugin"] as never,
};

import { markSyncAndSafe } from "postgraphile/grafast";

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

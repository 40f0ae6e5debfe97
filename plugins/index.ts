import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { ArticleFilterPlugin } from "./ArticleFilterPlugin.ts";
import { ArticleSubscriptionsPlugin } from "./ArticleSubscriptionsPlugin.ts";
import { ArticleTitlePlugin } from "./ArticleTitlePlugin.ts";
import { ConnectionShapePlugin } from "./ConnectionShapePlugin.ts";
import { ContractNamesPlugin } from "./ContractNamesPlugin.ts";
import { DefaultsPlugin } from "./DefaultsPlugin.ts";
import { DescriptionsPlugin } from "./DescriptionsPlugin.ts";
import { FilterArgumentsPlugin } from "./FilterArgumentsPlugin.ts";
import { FunctionMutationsPlugin } from "./FunctionMutationsPlugin.ts";
import { HideForeignKeyColumnsPlugin } from "./HideForeignKeyColumnsPlugin.ts";
import { IdColumnsPlugin } from "./IdColumnsPlugin.ts";
import { ListShapePlugin } from "./ListShapePlugin.ts";
import { NotNullByDeclarationPlugin } from "./NotNullByDeclarationPlugin.ts";
import { NullRecordArraysPlugin } from "./NullRecordArraysPlugin.ts";
import { TableMutationsPlugin } from "./TableMutationsPlugin.ts";
import { TimeScalarPlugin } from "./TimeScalarPlugin.ts";

/** The differences between the schema that PostGraphile generates and the contract, in the order in which they apply. */
export const contractPreset: GraphileConfig.Preset = {
  extends: [PostGraphileAmberPreset],
  disablePlugins: [
    // The contract has no Node interface, no nodeId, no clientMutationId and no query in the result of a mutation.
    "NodePlugin",
    "NodeAccessorPlugin",
    "AddNodeInterfaceToSuitableTypesPlugin",
    "PgTableNodePlugin",
    "PgNodeIdAttributesPlugin",
    "NodeIdCodecBase64JSONPlugin",
    "NodeIdCodecPipeStringPlugin",
    "RegisterQueryNodePlugin",
    "ClientMutationIdDescriptionPlugin",
    "MutationPayloadQueryPlugin",
    "QueryQueryPlugin",
    // Cursors have the type String.
    "CursorTypePlugin",
    "BuiltinScalarConnectionsPlugin",
    // Replaced by TableMutationsPlugin, FilterArgumentsPlugin and the order of page.ts.
    "PgMutationCreatePlugin",
    "PgMutationUpdateDeletePlugin",
    "PgMutationPayloadEdgePlugin",
    "PgConditionArgumentPlugin",
    "PgConditionCustomFieldsPlugin",
    "PgConnectionArgOrderByPlugin",
    "PgConnectionArgOrderByDefaultValuePlugin",
    "PgOrderAllAttributesPlugin",
    "PgOrderByPrimaryKeyPlugin",
    "PgOrderCustomFieldsPlugin",
  ],
  plugins: [
    ContractNamesPlugin,
    IdColumnsPlugin,
    HideForeignKeyColumnsPlugin,
    NotNullByDeclarationPlugin,
    NullRecordArraysPlugin,
    ConnectionShapePlugin,
    ListShapePlugin,
    FilterArgumentsPlugin,
    ArticleFilterPlugin,
    ArticleTitlePlugin,
    DefaultsPlugin,
    FunctionMutationsPlugin,
    TableMutationsPlugin,
    TimeScalarPlugin,
    DescriptionsPlugin,
    ArticleSubscriptionsPlugin,
  ],
  gather: { pgStrictFunctions: true },
  schema: {
    pgForbidSetofFunctionsToReturnNull: true,
    // Root fields are connections; fields between tables are lists.
    defaultBehavior: "-manyRelation:resource:connection +manyRelation:resource:list",
  },
};

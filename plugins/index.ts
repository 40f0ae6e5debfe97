import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { ArgumentDefaultsPlugin } from "./ArgumentDefaultsPlugin.ts";
import { ArticleFilterPlugin } from "./ArticleFilterPlugin.ts";
import { ArticleSubscriptionsPlugin } from "./ArticleSubscriptionsPlugin.ts";
import { ArticleTitlePlugin } from "./ArticleTitlePlugin.ts";
import { ConnectionShapePlugin } from "./ConnectionShapePlugin.ts";
import { ContractNamesPlugin } from "./ContractNamesPlugin.ts";
import { DescriptionsPlugin } from "./DescriptionsPlugin.ts";
import { FilterArgumentsPlugin } from "./FilterArgumentsPlugin.ts";
import { FunctionMutationsPlugin } from "./FunctionMutationsPlugin.ts";
import { HideForeignKeyColumnsPlugin } from "./HideForeignKeyColumnsPlugin.ts";
import { IdColumnsPlugin } from "./IdColumnsPlugin.ts";
import { InputDefaultsPlugin } from "./InputDefaultsPlugin.ts";
import { ListShapePlugin } from "./ListShapePlugin.ts";
import { NotNullByDeclarationPlugin } from "./NotNullByDeclarationPlugin.ts";
import { NullRecordArraysPlugin } from "./NullRecordArraysPlugin.ts";
import { TableMutationsPlugin } from "./TableMutationsPlugin.ts";
import { TimeScalarPlugin } from "./TimeScalarPlugin.ts";

/** The differences between the schema that PostGraphile generates and the contract, in the order they are applied. */
export const contractPreset: GraphileConfig.Preset = {
  extends: [PostGraphileAmberPreset],
  disablePlugins: [
    // No Node interface, no nodeId, no clientMutationId, no query in a mutation's result.
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
    // Cursors are String.
    "CursorTypePlugin",
    "BuiltinScalarConnectionsPlugin",
    // Mutations, conditions and orders are our own.
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
    InputDefaultsPlugin,
    ArgumentDefaultsPlugin,
    FunctionMutationsPlugin,
    TableMutationsPlugin,
    TimeScalarPlugin,
    DescriptionsPlugin,
    ArticleSubscriptionsPlugin,
  ],
  gather: { pgStrictFunctions: true },
  schema: {
    pgForbidSetofFunctionsToReturnNull: true,
    // At the root a table is a connection; between tables it is a list.
    defaultBehavior: "-manyRelation:resource:connection +manyRelation:resource:list",
  },
};

import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { PostGraphileConnectionFilterPreset } from "postgraphile-plugin-connection-filter";
import { AggregatesPlugin } from "./AggregatesPlugin.ts";
import { ArticleFilterPlugin } from "./ArticleFilterPlugin.ts";
import { ArticleSubscriptionsPlugin } from "./ArticleSubscriptionsPlugin.ts";
import { ArticleTitlePlugin } from "./ArticleTitlePlugin.ts";
import { BigIntScalarPlugin } from "./BigIntScalarPlugin.ts";
import { BulkMutationsPlugin } from "./BulkMutationsPlugin.ts";
import { ConnectionShapePlugin } from "./ConnectionShapePlugin.ts";
import { ContractNamesPlugin } from "./ContractNamesPlugin.ts";
import { DefaultsPlugin } from "./DefaultsPlugin.ts";
import { DescriptionsPlugin } from "./DescriptionsPlugin.ts";
import { FieldSourcesPlugin } from "./FieldSourcesPlugin.ts";
import { FilledColumnsPlugin } from "./FilledColumnsPlugin.ts";
import { FilterArgumentsPlugin } from "./FilterArgumentsPlugin.ts";
import { FilterOperatorsPlugin } from "./FilterOperatorsPlugin.ts";
import { FiniteFloatsPlugin } from "./FiniteFloatsPlugin.ts";
import { GeneratedColumnsPlugin } from "./GeneratedColumnsPlugin.ts";
import { HavingPlugin } from "./HavingPlugin.ts";
import { IdColumnsPlugin } from "./IdColumnsPlugin.ts";
import { InputColumnsPlugin } from "./InputColumnsPlugin.ts";
import { ListShapePlugin } from "./ListShapePlugin.ts";
import { MutationShapePlugin } from "./MutationShapePlugin.ts";
import { NamesakesPlugin } from "./NamesakesPlugin.ts";
import { NotNullByDeclarationPlugin } from "./NotNullByDeclarationPlugin.ts";
import { NullRecordArraysPlugin } from "./NullRecordArraysPlugin.ts";
import { OrderByPlugin } from "./OrderByPlugin.ts";
import { SpelledNamesPlugin } from "./SpelledNamesPlugin.ts";
import { TableMutationsPlugin } from "./TableMutationsPlugin.ts";
import { TimeScalarPlugin } from "./TimeScalarPlugin.ts";
import { UnloggedTablesPlugin } from "./UnloggedTablesPlugin.ts";

/** The differences between the schema that PostGraphile generates and the contract, in the order in which they apply. */
export const contractPreset: GraphileConfig.Preset = {
  extends: [PostGraphileAmberPreset, PostGraphileConnectionFilterPreset],
  disablePlugins: [
    // The contract has no clientMutationId and no query in the result of a mutation.
    "ClientMutationIdDescriptionPlugin",
    "MutationPayloadQueryPlugin",
    "QueryQueryPlugin",
    // Replaced by PrivilegesPlugin.
    "PgRBACPlugin",
    // Cursors have the type String.
    "CursorTypePlugin",
    "BuiltinScalarConnectionsPlugin",
    // Replaced by TableMutationsPlugin, FilterArgumentsPlugin, OrderByPlugin and the order of page.ts.
    "PgMutationCreatePlugin",
    "PgMutationUpdateDeletePlugin",
    "PgMutationPayloadEdgePlugin",
    "PgConditionArgumentPlugin",
    "PgConditionCustomFieldsPlugin",
    "PgConnectionArgOrderByDefaultValuePlugin",
    "PgOrderAllAttributesPlugin",
    "PgOrderByPrimaryKeyPlugin",
    "PgOrderCustomFieldsPlugin",
  ],
  plugins: [
    ContractNamesPlugin,
    NamesakesPlugin,
    SpelledNamesPlugin,
    UnloggedTablesPlugin,
    IdColumnsPlugin,
    GeneratedColumnsPlugin,
    FilledColumnsPlugin,
    NotNullByDeclarationPlugin,
    NullRecordArraysPlugin,
    FiniteFloatsPlugin,
    OrderByPlugin,
    ConnectionShapePlugin,
    ListShapePlugin,
    AggregatesPlugin,
    HavingPlugin,
    FilterArgumentsPlugin,
    FilterOperatorsPlugin,
    ArticleFilterPlugin,
    ArticleTitlePlugin,
    DefaultsPlugin,
    MutationShapePlugin,
    TableMutationsPlugin,
    BulkMutationsPlugin,
    TimeScalarPlugin,
    BigIntScalarPlugin,
    InputColumnsPlugin,
    DescriptionsPlugin,
    ArticleSubscriptionsPlugin,
    FieldSourcesPlugin,
  ],
  gather: { pgStrictFunctions: true },
  schema: {
    pgForbidSetofFunctionsToReturnNull: true,
    connectionFilterRelations: true,
    // No index serves a function. A DBA who knows better writes `@behavior +filterBy`.
    connectionFilterComputedColumns: false,
    // A null column, relation or list sets no condition; FilterOperatorsPlugin refuses it as the value of an operator.
    connectionFilterAllowNullInput: true,
    connectionFilterAllowEmptyObjectInput: true,
    // Root fields are connections. Fields between tables are lists, and connections named `articlesConnection`.
    defaultBehavior: "+manyRelation:resource:connection +manyRelation:resource:list",
  },
};

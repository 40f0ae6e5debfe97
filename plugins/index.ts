import { PostGraphileAmberPreset } from "postgraphile/presets/amber";
import { PostGraphileConnectionFilterPreset } from "postgraphile-plugin-connection-filter";
import { ConnectionShapePlugin } from "./lists/ConnectionShapePlugin.ts";
import { FilterArgumentsPlugin } from "./lists/FilterArgumentsPlugin.ts";
import { FilterOperatorsPlugin } from "./lists/FilterOperatorsPlugin.ts";
import { ListShapePlugin } from "./lists/ListShapePlugin.ts";
import { OrderByPlugin } from "./lists/OrderByPlugin.ts";
import { UnindexedReferencesPlugin } from "./lists/UnindexedReferencesPlugin.ts";
import { BigIntScalarPlugin } from "./shape/BigIntScalarPlugin.ts";
import { BuiltInScalarsPlugin } from "./shape/BuiltInScalarsPlugin.ts";
import { ContractNamesPlugin } from "./shape/ContractNamesPlugin.ts";
import { DescriptionsPlugin } from "./shape/DescriptionsPlugin.ts";
import { ExactValuesPlugin } from "./shape/ExactValuesPlugin.ts";
import { FieldSourcesPlugin } from "./shape/FieldSourcesPlugin.ts";
import { FilledColumnsPlugin } from "./shape/FilledColumnsPlugin.ts";
import { GeneratedColumnsPlugin } from "./shape/GeneratedColumnsPlugin.ts";
import { IdColumnsPlugin } from "./shape/IdColumnsPlugin.ts";
import { InheritedTablesPlugin } from "./shape/InheritedTablesPlugin.ts";
import { JsonScalarPlugin } from "./shape/JsonScalarPlugin.ts";
import { KeylessTablesPlugin } from "./shape/KeylessTablesPlugin.ts";
import { MissingRightsPlugin } from "./shape/MissingRightsPlugin.ts";
import { NamesakesPlugin } from "./shape/NamesakesPlugin.ts";
import { NotNullByDeclarationPlugin } from "./shape/NotNullByDeclarationPlugin.ts";
import { NullChecksPlugin } from "./shape/NullChecksPlugin.ts";
import { OtherTypesPlugin } from "./shape/OtherTypesPlugin.ts";
import { RecordColumnsPlugin } from "./shape/RecordColumnsPlugin.ts";
import { RelationshipNamesPlugin } from "./shape/RelationshipNamesPlugin.ts";
import { RememberedAnswersPlugin } from "./shape/RememberedAnswersPlugin.ts";
import { RowFunctionsPlugin } from "./shape/RowFunctionsPlugin.ts";
import { SpelledNamesPlugin } from "./shape/SpelledNamesPlugin.ts";
import { TableExtrasPlugin } from "./shape/TableExtrasPlugin.ts";
import { TimeScalarPlugin } from "./shape/TimeScalarPlugin.ts";
import { UnloggedTablesPlugin } from "./shape/UnloggedTablesPlugin.ts";
import { TableSubscriptionsPlugin } from "./subscriptions/TableSubscriptionsPlugin.ts";
import { DefaultsPlugin } from "./writes/DefaultsPlugin.ts";
import { InputColumnsPlugin } from "./writes/InputColumnsPlugin.ts";
import { MutationShapePlugin } from "./writes/MutationShapePlugin.ts";
import { TableMutationsPlugin } from "./writes/TableMutationsPlugin.ts";

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
    // Tokens are made by the routes that sign in. It asks for the behavior of each type in one turn.
    "PgJWTPlugin",
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
    RememberedAnswersPlugin,
    TableExtrasPlugin,
    ExactValuesPlugin,
    OtherTypesPlugin,
    ContractNamesPlugin,
    NamesakesPlugin,
    SpelledNamesPlugin,
    RowFunctionsPlugin,
    InheritedTablesPlugin,
    UnloggedTablesPlugin,
    IdColumnsPlugin,
    GeneratedColumnsPlugin,
    FilledColumnsPlugin,
    NotNullByDeclarationPlugin,
    NullChecksPlugin,
    RecordColumnsPlugin,
    OrderByPlugin,
    ConnectionShapePlugin,
    ListShapePlugin,
    FilterArgumentsPlugin,
    FilterOperatorsPlugin,
    DefaultsPlugin,
    MutationShapePlugin,
    TableMutationsPlugin,
    TimeScalarPlugin,
    BuiltInScalarsPlugin,
    BigIntScalarPlugin,
    JsonScalarPlugin,
    InputColumnsPlugin,
    KeylessTablesPlugin,
    MissingRightsPlugin,
    UnindexedReferencesPlugin,
    RelationshipNamesPlugin,
    DescriptionsPlugin,
    TableSubscriptionsPlugin,
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
    // Root fields are connections. Fields between tables are lists, and connections named `postsConnection`.
    defaultBehavior: "+manyRelation:resource:connection +manyRelation:resource:list",
  },
};

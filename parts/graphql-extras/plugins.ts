// What they use of PostGraphile, of other plugins, and of the options of the schema.
import type {} from "postgraphile";
import type {} from "postgraphile-plugin-connection-filter";
import type {} from "../../plugins/lists/page.ts";
import { AbsentBulkMutationsPlugin } from "./AbsentBulkMutationsPlugin.ts";
import { AggregatesPlugin } from "./AggregatesPlugin.ts";
import { BulkMutationsPlugin } from "./BulkMutationsPlugin.ts";
import { ChangedRowsPlugin } from "./ChangedRowsPlugin.ts";
import { ChangeFiltersPlugin } from "./ChangeFiltersPlugin.ts";
import { HavingPlugin } from "./HavingPlugin.ts";
import { ManyToManyPlugin } from "./ManyToManyPlugin.ts";

/** In the order in which they apply. */
export const plugins: readonly GraphileConfig.Plugin[] = [
  AggregatesPlugin,
  HavingPlugin,
  BulkMutationsPlugin,
  AbsentBulkMutationsPlugin,
  ManyToManyPlugin,
  ChangeFiltersPlugin,
  ChangedRowsPlugin,
];

import { AbsentBulkMutationsPlugin } from "./AbsentBulkMutationsPlugin.ts";
import { AggregatesPlugin } from "./AggregatesPlugin.ts";
import { BulkMutationsPlugin } from "./BulkMutationsPlugin.ts";
import { HavingPlugin } from "./HavingPlugin.ts";
import { ManyToManyPlugin } from "./ManyToManyPlugin.ts";

/** In the order in which they apply. */
export const plugins: readonly GraphileConfig.Plugin[] = [
  AggregatesPlugin,
  HavingPlugin,
  BulkMutationsPlugin,
  AbsentBulkMutationsPlugin,
  ManyToManyPlugin,
];

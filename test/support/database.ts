import { inject } from "vitest";
import { copyDatabase, type DatabaseCopy } from "../../kit/cluster.ts";
import { TEMPLATE } from "./cluster.ts";
import { count } from "./counts.ts";

export type TestDatabase = DatabaseCopy;

/** A separate database for a test file: users ada (1), bob (2), admin (3) and carol (4), articles 1 to 4, comments 1 to 3. */
export const createTestDatabase = (
  clusterUrl: string = inject("clusterUrl"),
  template: string = TEMPLATE,
): Promise<TestDatabase> => {
  count("databases");
  return copyDatabase(clusterUrl, template);
};

import type { ClientBase } from "pg";
import type { Config } from "../../config/config.ts";
import type { Finding } from "../../db/findings/finding.ts";
import { PARTS } from "../../parts/list.ts";
import { loadParts } from "../../service/parts.ts";

/** Finds what is wrong in a database, as the parts that are open see it. */
export const inspectorOf =
  (config: Config) =>
  async (client: ClientBase, roles?: readonly string[]): Promise<readonly Finding[]> => {
    const found: Finding[] = [];
    for (const { inspect } of await loadParts(PARTS, config))
      found.push(...((await inspect?.(client, config, roles)) ?? []));
    return found;
  };

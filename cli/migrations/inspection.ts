import type { ClientBase } from "pg";
import type { Configured } from "../../app/configured.ts";
import type { Finding } from "../../db/findings/finding.ts";
import { PARTS } from "../../parts/list.ts";
import { loadParts, withOwnParts } from "../../service/parts.ts";

/** Finds what is wrong in a database, as the parts that are open see it. */
export const inspectorOf =
  ({ config, application }: Configured) =>
  async (client: ClientBase, roles?: readonly string[]): Promise<readonly Finding[]> => {
    const found: Finding[] = [];
    for (const { inspect } of await loadParts(withOwnParts(PARTS, application), config))
      found.push(...((await inspect?.(client, config, roles)) ?? []));
    return found;
  };

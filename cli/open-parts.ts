import type { ClientBase } from "pg";
import type { Configured } from "../app/configured.ts";
import type { ProviderReader } from "../config/providers.ts";
import type { Finding } from "../db/findings/finding.ts";
import { PARTS } from "../parts/list.ts";
import type { Protocol } from "../rest-gateway/auth/federated/protocol.ts";
import type { Part } from "../service/part.ts";
import { type ListedPart, partsFor, protocolsOf, withOwnParts } from "../service/parts.ts";

/** All parts, whether they are open or not. Throws ConfigError. */
export const allParts = ({ application }: Configured): readonly ListedPart[] => withOwnParts(PARTS, application);

/** The parts that are open with the settings of a command. Throws ConfigError. */
export const openParts = (configured: Configured): Promise<readonly Part[]> =>
  partsFor(allParts(configured), configured.config);

/** The protocols of these parts, and what reads providers of them too. */
export async function readProtocols(
  configured: Configured,
): Promise<{ readonly protocols: readonly Protocol[]; readonly reader: ProviderReader }> {
  const protocols = protocolsOf(await openParts(configured));
  return { protocols, reader: configured.config.providers.with(protocols) };
}

/** Finds what is wrong in a database, as these parts see it. */
export const inspectorOf =
  (configured: Configured) =>
  async (client: ClientBase, roles?: readonly string[]): Promise<readonly Finding[]> => {
    const found: Finding[] = [];
    for (const { inspect } of await openParts(configured))
      found.push(...((await inspect?.(client, configured.config, roles)) ?? []));
    return found;
  };

import { type Config, ConfigError } from "../config/config.ts";
import type { ProviderReader } from "../config/providers.ts";
import { PARTS } from "../parts/list.ts";
import type { Protocol } from "../rest-gateway/auth/federated/protocol.ts";
import { loadParts, protocolsOf } from "../service/parts.ts";
import { CommandError } from "./command.ts";

/** The protocols of the parts that are open with these settings, and what reads providers of them too. Throws CommandError. */
export async function readProtocols(
  config: Config,
): Promise<{ readonly protocols: readonly Protocol[]; readonly reader: ProviderReader }> {
  try {
    const protocols = protocolsOf(await loadParts(PARTS, config));
    const reader = config.providers.with(protocols);
    reader.readFile();
    return { protocols, reader };
  } catch (error) {
    throw error instanceof ConfigError ? new CommandError(2, error.message) : error;
  }
}

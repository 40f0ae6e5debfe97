import type { ClientBase } from "pg";
import type { Configured } from "../app/configured.ts";
import type { ProviderSettings } from "../config/provider-entry.ts";
import type { ProviderReader } from "../config/providers.ts";
import type { Finding } from "../db/findings/finding.ts";
import type { DiagnoseProvider, DiagnosisOptions } from "../rest-gateway/auth/federated.ts";
import type { Part } from "../service/part.ts";
import { type ListedPart, partsFor, providerKindsOf, withOwnParts } from "../service/parts.ts";
import { explainRefusal } from "../service/rights.ts";
import { PARTS } from "./list.ts";

/** All parts, whether they are open or not. Throws ConfigError. */
export const allParts = ({ application }: Configured): readonly ListedPart[] => withOwnParts(PARTS, application);

/** The parts that are open with the settings of a command. Throws ConfigError. */
export const openParts = (configured: Configured): Promise<readonly Part[]> =>
  partsFor(allParts(configured), configured.config, configured.application);

/** Rejects with the failure of a migration of a command, as these parts explain it. */
export const explainWith =
  (configured: Configured, url: string, runsMigrations = true) =>
  async (error: unknown): Promise<never> =>
    explainRefusal(await openParts(configured), error, url, runsMigrations);

/** What reads the identity providers that these parts know, and what checks one. */
export async function readProviders(configured: Configured): Promise<{
  readonly reader: ProviderReader;
  diagnose(settings: ProviderSettings, options: DiagnosisOptions): ReturnType<DiagnoseProvider>;
}> {
  const parts = await openParts(configured);
  const providerKinds = providerKindsOf(parts);
  const part = parts.find(({ diagnoseProvider }) => diagnoseProvider);
  return {
    reader: configured.config.providers.with(providerKinds),
    // Without this part, no provider can be read.
    diagnose: (settings, options) => part!.diagnoseProvider!(settings, { ...options, providerKinds }),
  };
}

/** Finds what is wrong in a database, as these parts see it. */
export const inspectorOf =
  (configured: Configured) =>
  async (client: ClientBase, roles?: readonly string[]): Promise<readonly Finding[]> => {
    const found: Finding[] = [];
    const parts = await openParts(configured);
    for (const { inspect } of parts)
      found.push(...((await inspect?.(client, { config: configured.config, parts }, roles)) ?? []));
    return found;
  };

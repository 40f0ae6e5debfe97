import type { Outbound } from "./outbound.ts";
import { readPublicKeys } from "./remote-keys.ts";

/** What a check of a database or of settings has found, and what to do about it. */
export type Check = { readonly level: "ok" | "note" | "warning" | "error"; readonly text: string };

export const ok = (text: string): Check => ({ level: "ok", text });
export const note = (text: string): Check => ({ level: "note", text });
export const warning = (text: string): Check => ({ level: "warning", text });
export const error = (text: string): Check => ({ level: "error", text });

/** Reads the key set of a provider or of a trusted issuer. */
export async function checkKeys(url: string, outbound: Outbound): Promise<Check> {
  try {
    const count = readPublicKeys(await outbound.json(url)).length;
    return ok(`the key set has ${count} key${count === 1 ? "" : "s"} that can verify tokens`);
  } catch (cause) {
    return error(`the keys cannot be read: ${(cause as Error).message}`);
  }
}

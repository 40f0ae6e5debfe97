import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { reloaded } from "../config/reload.ts";
import type { LiveSettings } from "../db/follow/live-settings.ts";

/**
 * Reads the settings of the environment again, and applies those that can change while the service runs. Listeners are called even if
 * no setting has changed: files that a setting names may have. Invalid settings, and invalid files that settings name, are logged,
 * and the previous ones stay. Returns whether the settings are valid.
 */
export async function reloadSettings(settings: LiveSettings, read: () => Config, log: Logger): Promise<boolean> {
  try {
    const { config, restart } = reloaded(settings.environment, read());
    await settings.rebase(config);
    if (restart.length > 0) log.warn({ settings: restart }, "these changed settings need a restart");
    log.info("the settings have been reloaded");
    return true;
  } catch (error) {
    log.error(`the settings cannot be reloaded, the previous ones stay in use: ${(error as Error).message}`);
    return false;
  }
}

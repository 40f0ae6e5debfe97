import { type Config, type Environment, folderIn, isSetting, readConfig } from "../config/config.ts";
import type { DeclaredSettings } from "../config/declared.ts";
import { distance } from "../db/catalog/similar.ts";
import { type Application, applicationOf, settingsOf } from "./application.ts";
import { loadApplication } from "./load.ts";

/** The settings and the application of a service. */
export type Configured = {
  readonly config: Config;
  readonly application: Application;
  /** Reads the settings of the environment again. Throws ConfigError. */
  reread(): Config;
};

type Options = {
  /** The folder of the application. The default is that of the setting APPLICATION, or the nearest one. */
  readonly folder?: string | undefined;
  /** The default is the environment of the process. */
  readonly environment?: Environment | undefined;
  /** The settings of the parts of the service. */
  readonly ofParts: readonly DeclaredSettings[];
  /** Whether a key for tokens is required, as by the service. */
  readonly needsKeys?: boolean;
};

/** Reads the settings and the application. Throws ConfigError. */
export async function configure({ folder, environment, ofParts, needsKeys = true }: Options): Promise<Configured> {
  const definition = await loadApplication(folder ?? folderIn(environment));
  const ofApplication = settingsOf(definition, ofParts);
  const reread = () => readConfig(environment, { needsKeys, ...ofApplication });
  const config = reread();
  return { config, application: applicationOf(definition, config), reread };
}

/** A line for each of these names of `.env` that is probably meant to be a setting of the service or of the application. */
export function misspeltSettings(
  names: readonly string[],
  { declared, known }: Pick<Config, "declared" | "known">,
): readonly string[] {
  const all = [...Object.keys(known), ...Object.keys(declared)];
  const others = names.filter((name) => !isSetting(name, known) && !(name in declared));
  return others.flatMap((name) => {
    const allowed = Math.min(2, Math.floor(name.length / 4));
    const meant = all.find((each) => distance(name, each) <= allowed);
    return meant === undefined ? [] : [`.env: ${name} is not a setting. Did you mean ${meant}?\n`];
  });
}

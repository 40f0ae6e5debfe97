import { type Config, type Environment, folderIn, readConfig } from "../config/config.ts";
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
  /** Whether a key for tokens is required, as by the service. */
  readonly needsKeys?: boolean;
};

/** Reads the settings and the application. Throws ConfigError. */
export async function configure({ folder, environment, needsKeys = true }: Options): Promise<Configured> {
  const definition = await loadApplication(folder ?? folderIn(environment));
  const ofApplication = settingsOf(definition);
  const reread = () => readConfig(environment, { needsKeys, ...ofApplication });
  const config = reread();
  return { config, application: applicationOf(definition, config), reread };
}

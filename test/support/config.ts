import { settingsOf as settingsWith } from "../../app/application.ts";
import { configure as configureWith } from "../../app/configured.ts";
import type { Definition } from "../../app/load.ts";
import { readConfig as readConfigWith } from "../../config/config.ts";
import { knownSettings, settingsOfParts } from "../../config/declared.ts";
import { describeSettings as describe } from "../../config/settings.ts";
import { PARTS } from "../../parts/list.ts";

const ofParts = await settingsOfParts(PARTS);

/** The settings of the service with all its parts, and what reads them. */
export const KNOWN = knownSettings(ofParts);

export const readConfig: typeof readConfigWith = (given, options) => readConfigWith(given, { ofParts, ...options });

export const settingsOf = (definition: Definition) => settingsWith(definition, ofParts);

export const configure = (options: Omit<Parameters<typeof configureWith>[0], "ofParts">) =>
  configureWith({ ofParts, ...options });

export const describeSettings = () => describe(KNOWN);

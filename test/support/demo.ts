import { applicationOf, settingsOf } from "../../app/application.ts";
import { type Definition, loadApplication } from "../../app/load.ts";
import { readConfig } from "../../config/config.ts";
import type { Description } from "../../rest-gateway/resources/description.ts";

/** The application in demo/, which is that of most tests. */
export const DEMO: Definition = await loadApplication("demo");

/** Its resources: users, articles and comments. */
export const DESCRIPTIONS: readonly Description[] = applicationOf(DEMO, readConfig({}, settingsOf(DEMO))).resources;

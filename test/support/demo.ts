import { applicationOf } from "../../app/application.ts";
import { type Definition, loadApplication } from "../../app/load.ts";
import type { Description } from "../../rest-gateway/resources/description.ts";
import { readConfig, settingsOf } from "./config.ts";

/** The application in demo/, which is that of most tests. */
export const DEMO: Definition = await loadApplication("demo");

/** Its resources: users, articles and comments. */
export const DESCRIPTIONS: readonly Description[] = applicationOf(DEMO, readConfig({}, settingsOf(DEMO))).resources;

import type { Config } from "../config/config.ts";
import { databaseLimits } from "../db/limits.ts";
import { httpLimits } from "../gate/limits.ts";
import { graphqlLimits } from "../graphql/limits.ts";
import { realtimeLimits } from "../realtime/limits.ts";
import { authLimits } from "../rest-gateway/auth/limits.ts";
import { restLimits } from "../rest-gateway/limits.ts";
import { taskLimits } from "../rest-gateway/tasks/limits.ts";

/** The numbers of all rooms, some of which follow from settings. */
const limitsOf = (settings: Config) => ({
  ...databaseLimits(settings),
  ...httpLimits(settings),
  ...restLimits(settings),
  ...graphqlLimits(),
  ...realtimeLimits(settings),
  ...authLimits(settings),
  ...taskLimits(settings),
});

/** Other numbers than those of the rooms, for tests: `{ restMaxEmbeds: 3 }`. */
export type Limits = Partial<Readonly<Record<keyof ReturnType<typeof limitsOf>, number>>>;

export type LimitedConfig = Config & Readonly<ReturnType<typeof limitsOf>>;

/** The settings with the numbers of the rooms, or with those in `limits`. */
export const withLimits = (settings: Config, limits: Limits = {}): LimitedConfig => ({
  ...settings,
  ...limitsOf(settings),
  ...limits,
});

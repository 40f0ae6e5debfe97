/** The parts of the service in the database, beside `caller`, which the others need. */
export const MODULE_NAMES = ["auth", "tasks", "feed", "channels"] as const;

export type ModuleName = (typeof MODULE_NAMES)[number];

/** The types that ids of users can have. */
export const USER_ID_TYPES = ["uuid", "bigint", "integer", "text"] as const;

export type UserIdType = (typeof USER_ID_TYPES)[number];

/** What the service has in the database, as MIGRATE and MODULES say. */
export type ModuleSettings = {
  readonly modules: readonly ModuleName[];
  /** Whether the service has its roles and logins in the database: MIGRATE is not off. */
  readonly isManaged: boolean;
  /** Whether users have accounts here and sign in here. */
  readonly hasAuth: boolean;
  readonly hasTasks: boolean;
  /** Whether the service publishes the changes of tables itself. */
  readonly hasFeed: boolean;
  readonly hasChannels: boolean;
};

/** The feed changes tables of the application, so with MIGRATE=modules it is only used if it is named. */
export function moduleSettings(given: {
  readonly migrate: "on" | "modules" | "check" | "off";
  readonly modules: readonly ModuleName[] | "";
}): ModuleSettings {
  const usual = MODULE_NAMES.filter((name) => given.migrate !== "modules" || name !== "feed");
  const modules = given.migrate === "off" ? [] : given.modules || usual;
  return {
    modules,
    isManaged: given.migrate !== "off",
    hasAuth: modules.includes("auth"),
    hasTasks: modules.includes("tasks"),
    hasFeed: modules.includes("feed"),
    hasChannels: modules.includes("channels"),
  };
}

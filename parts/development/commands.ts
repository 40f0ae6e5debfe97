import type { Commands } from "../../config/command.ts";

export const commands: Commands = {
  init: {
    about: "make an application, with --database <url> or --from-supabase <project> for what you have",
    load: async () => (await import("./init/init.ts")).init,
  },
  example: {
    about: "copy an example page, with React or without",
    load: async () => (await import("./example.ts")).example,
  },
  migrate: {
    about: "migrations: apply, commit, uncommit, check or status",
    load: async () => (await import("./migrations/migrate.ts")).migrationCommand,
  },
  test: {
    about: "check the types and the migrations of the application, and run its tests",
    load: async () => (await import("./test.ts")).testCommand,
    environment: { NODE_ENV: "test" },
  },
};

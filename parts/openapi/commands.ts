import type { Commands } from "../../config/command.ts";

export const commands: Commands = {
  types: {
    about: "print TypeScript types of the database for supabase-js",
    load: async () => (await import("./types.ts")).types,
  },
};

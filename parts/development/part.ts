import type { Part } from "../../service/part.ts";

export const development: Part = {
  name: "development",
  about: "commands for those who write an application: init, example, migrate and test",
  needs: ["openapi"],
  // Loaded only for a database that refuses something.
  missingRights: async (client, use) => (await import("./existing/missing-rights.ts")).missingRights(client, use),
};

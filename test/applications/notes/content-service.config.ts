import { defineConfig, z } from "content-service";
import { notes } from "./resources/notes.ts";
import { feed } from "./routes/feed.ts";
import { reports } from "./routes/reports.ts";
import { digest } from "./tasks/digest.ts";

export default defineConfig({
  environment: { APP_REPORT_LIMIT: z.coerce.number().default(10) },
  resources: [notes],
  routes: ({ APP_REPORT_LIMIT }) => [reports(APP_REPORT_LIMIT), feed],
  tasks: [digest],
  graphql: () => import("./plugins/index.ts"),
});

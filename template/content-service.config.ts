import { defineConfig } from "content-service";
import { notes } from "./resources/notes.ts";
import { hello } from "./routes/hello.ts";
import { digest } from "./tasks/digest.ts";

export default defineConfig({
  resources: [notes],
  routes: [hello],
  tasks: [digest],
  graphql: () => import("./plugins/index.ts"),
  seedAccounts: "ada or bob (Correct-Horse-7!)",
});

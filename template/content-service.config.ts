import { defineConfig } from "content-service";
import { digest } from "./parts/digest/part.ts";
import { notes } from "./resources/notes.ts";
import { hello } from "./routes/hello.ts";

export default defineConfig({
  resources: [notes],
  routes: [hello],
  parts: [digest],
  graphql: () => import("./plugins/index.ts"),
  seedAccounts: "ada or bob (Correct-Horse-7!)",
});

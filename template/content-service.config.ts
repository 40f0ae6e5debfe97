import { defineConfig } from "content-service";
import { hello } from "./routes/hello.ts";

export default defineConfig({
  routes: [hello],
});

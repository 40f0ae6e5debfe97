import { defineConfig } from "content-service";
import { hello } from "./routes/hello.ts";

export default defineConfig({
  settings: { AUTH_USER_ID: "bigint" },
  routes: [hello],
});

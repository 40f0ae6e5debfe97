import { defineConfig } from "content-service";

export default defineConfig({});

import { valuesOf } from "../../config/declared.ts";
import type { Part } from "../../service/part.ts";
import { ENVELOPE, SupabasePaths } from "./paths.ts";
import { SUPABASE_PATHS } from "./settings.ts";

export const supabasePaths: Part = {
  name: "supabase-paths",
  about: "supabase.storage at /storage/v1, which a storage server answers, and what to use in place of /graphql/v1",
  paths: ["/storage/v1/*", "/graphql/v1/*"],
  errors: ENVELOPE,
  open: ({ config, url, log }) => ({ http: new SupabasePaths(valuesOf(config, SUPABASE_PATHS).storageUrl, url, log) }),
};

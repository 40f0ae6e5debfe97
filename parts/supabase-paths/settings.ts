import { httpUrl, orUnset } from "../../config/setting-types.ts";
import { setting } from "../../config/settings.ts";

export const SUPABASE_PATHS = {
  settings: {
    STORAGE_URL: setting(
      orUnset(httpUrl),
      "",
      "URL of a storage server, such as http://storage:5000, to which /storage/v1 passes requests. It checks the tokens itself, with JWT_SECRET. When unset, /storage/v1 is 404.",
    ),
  },
};

import { oneOf } from "../../config/setting-types.ts";
import { setting } from "../../config/settings.ts";

export const SUPABASE_AUTH = {
  settings: {
    MFA_AAL1: setting(
      oneOf("limited", "full"),
      "limited",
      "What a password alone opens at /auth/v1 if the user has a second factor. limited: the factors, the user and the logout; other requests are anonymous. full: everything that needs no recent sign-in.",
    ),
  },
};

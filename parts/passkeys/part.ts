import type { Part } from "../../service/part.ts";
import { createPasskeys } from "./passkeys.ts";
import { PASSKEY_ROUTES } from "./routes.ts";

export const passkeys: Part = {
  name: "passkeys",
  about: "passkeys, which sign in and are a second factor, at /auth/passkeys",
  authRoutes: PASSKEY_ROUTES,
  passkeys: createPasskeys,
};

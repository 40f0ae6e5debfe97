import type { Part } from "../../service/part.ts";
import { ADMIN_ROUTES } from "./routes.ts";

export const accountAdmin: Part = {
  name: "account-admin",
  about: "accounts and security events for administrators, at /auth/admin",
  authRoutes: ADMIN_ROUTES,
};

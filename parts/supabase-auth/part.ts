import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { absentAuthRouter } from "./absent.ts";
import { AUTH_V1, sendAuthProblem } from "./problem.ts";
import { authV1Router } from "./router.ts";
import { BROWSER_WIRE, WIRE } from "./wire.ts";

export const supabaseAuth: Part = {
  name: "supabase-auth",
  about: "sign-in with supabase-js at /auth/v1, the wire of Supabase Auth",
  paths: ["/auth/v1/*"],
  errors: AUTH_V1,
  open({ auth, onInternalError }) {
    auth?.wires.set(WIRE, BROWSER_WIRE);
    const routers = [auth ? authV1Router(auth) : absentAuthRouter()];
    return { http: new ExpressInterface({ routers, reject: sendAuthProblem, onInternalError }) };
  },
};

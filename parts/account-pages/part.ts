import { ACCOUNT_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { ExpressInterface } from "../../rest-gateway/express-interface.ts";
import type { Part } from "../../service/part.ts";
import { PATHS, pagesRouter } from "./router.ts";

export const accountPages: Part = {
  name: "account-pages",
  about: "pages for sign-in, sign-up and accounts, such as /auth/sign-in and /auth/account",
  paths: PATHS,
  hasAccountPages: true,
  pages: ({ hasAuth, authPagesUrl }) =>
    hasAuth && authPagesUrl === "" ? [{ path: ACCOUNT_PATH, name: "Account" }] : [],
  open({ auth, hasAccountPages, onInternalError }) {
    if (auth === null || !hasAccountPages) return {};
    const http = new ExpressInterface({ routers: [pagesRouter(auth)], onInternalError });
    return { http };
  },
};

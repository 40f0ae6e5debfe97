import type { Auth } from "../auth.ts";

// The paths of the pages. Those of sign-ins at providers are beside their routes.

export const SIGN_IN_PATH = "/auth/sign-in";
/** Where a browser completes a sign-in with the code of the second factor. */
export const CODE_PATH = `${SIGN_IN_PATH}/code`;
/** The page that the link of an e-mail opens. */
export const LINK_PATH = "/auth/link";
export const ACCOUNT_PATH = "/auth/account";

/** `/auth/link` → `/v1/auth/link` behind a proxy at https://example.com/v1 */
export const pathOf = ({ url }: Pick<Auth, "url">, path: string): string =>
  new URL(`${url}${path}`).pathname.replace(/\/$/, "");

/** Where a user who signs in continues, if nothing else is said. */
export const homeOf = ({ hasAccountPages, url }: Auth): string => `${url}${hasAccountPages ? ACCOUNT_PATH : "/"}`;

import { readFileSync } from "node:fs";
import { type Request, Router } from "express";
import { identityOf } from "../../gate/pipeline/exchange.ts";
import { problem } from "../../problems/problem.ts";
import { providersOf } from "../../rest-gateway/auth/federated.ts";
import { isSignupOpen } from "../../rest-gateway/auth/registration.ts";
import { type Route, type RoutedAuth, routerOf } from "../../rest-gateway/auth/route.ts";
import {
  createUser,
  deleteFactor,
  deleteUser,
  deleteUserPasskey,
  findUser,
  listFactors,
  listUserPasskeys,
  listUsers,
  replaceUser,
} from "./admin.ts";
import type { AuthCall } from "./call.ts";
import { reauthenticate, requestCode, requestRecovery, resendMail, verifyCode } from "./email.ts";
import { challengeFactor, enrollFactor, unenrollFactor, verifyFactor } from "./factors.ts";
import { generateLink, inviteUser } from "./links.ts";
import { openLink } from "./opened-links.ts";
import {
  addPasskey,
  beginPasskey,
  challengePasskey,
  deletePasskey,
  listPasskeys,
  renamePasskey,
  signInWithPasskey,
} from "./passkeys.ts";
import { invalid } from "./problem.ts";
import { authorize, authorizeLink, authorizeSso, grantByCode, grantByIdToken, unlinkIdentity } from "./providers.ts";
import { grantByPassword, grantByRefreshToken, signUp } from "./sign-in.ts";
import { changeUser, logOut, readUser } from "./user.ts";

type Handler = (call: AuthCall) => Promise<unknown> | object;
type V1Route = { readonly handle: Handler } & Pick<Route, "verifiesPassword">;

/** The routes of `/auth/v1`, the wire of Supabase Auth. Undefined is answered with 204. */
const ROUTES: Readonly<Record<string, V1Route>> = {
  "GET /health": { handle: () => ({ version: VERSION, name: "content-service", description: "Accounts and sign-in" }) },
  "GET /settings": { handle: readSettings },
  "GET /.well-known/jwks.json": { handle: readKeys },
  "GET /authorize": { handle: authorize },
  "POST /sso": { handle: authorizeSso },
  "POST /signup": { handle: signUp, verifiesPassword: true },
  "POST /token": { handle: (call) => grantOf(call.request)(call) },
  "POST /otp": { handle: requestCode },
  "POST /recover": { handle: requestRecovery },
  "POST /resend": { handle: resendMail },
  "GET /verify": { handle: openLink },
  "POST /verify": { handle: verifyCode, verifiesPassword: true },
  "GET /reauthenticate": { handle: reauthenticate },
  "GET /user": { handle: readUser },
  "PUT /user": { handle: changeUser },
  "GET /user/identities/authorize": { handle: authorizeLink },
  "DELETE /user/identities/{identityId}": { handle: unlinkIdentity },
  "POST /logout": { handle: logOut },
  "POST /factors": { handle: enrollFactor },
  "POST /factors/{factorId}/challenge": { handle: challengeFactor },
  "POST /factors/{factorId}/verify": { handle: verifyFactor },
  "DELETE /factors/{factorId}": { handle: unenrollFactor },
  "POST /passkeys/registration/options": { handle: beginPasskey },
  "POST /passkeys/registration/verify": { handle: addPasskey },
  "POST /passkeys/authentication/options": { handle: challengePasskey },
  "POST /passkeys/authentication/verify": { handle: signInWithPasskey },
  "GET /passkeys": { handle: listPasskeys },
  "PATCH /passkeys/{passkeyId}": { handle: renamePasskey },
  "DELETE /passkeys/{passkeyId}": { handle: deletePasskey },
  "POST /invite": { handle: inviteUser },
  "POST /admin/generate_link": { handle: generateLink },
  "GET /admin/users": { handle: listUsers },
  "POST /admin/users": { handle: createUser },
  "GET /admin/users/{userId}": { handle: findUser },
  "PUT /admin/users/{userId}": { handle: replaceUser },
  "DELETE /admin/users/{userId}": { handle: deleteUser },
  "GET /admin/users/{userId}/factors": { handle: listFactors },
  "DELETE /admin/users/{userId}/factors/{factorId}": { handle: deleteFactor },
  "GET /admin/users/{userId}/passkeys": { handle: listUserPasskeys },
  "DELETE /admin/users/{userId}/passkeys/{passkeyId}": { handle: deleteUserPasskey },
};

const GRANTS: Readonly<Record<string, Handler>> = {
  password: grantByPassword,
  refresh_token: grantByRefreshToken,
  pkce: grantByCode,
  id_token: grantByIdToken,
};

function grantOf({ query }: Request): Handler {
  const name = String(query.grant_type ?? "");
  if (Object.hasOwn(GRANTS, name)) return GRANTS[name]!;
  throw invalid("unsupported_grant_type");
}

const VERSION: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;

/** `GET /settings`: which ways to sign in this service has. */
function readSettings({ auth }: AuthCall): object {
  const providers = providersOf(auth);
  return {
    external: {
      ...Object.fromEntries(providers.map(({ name }) => [name, true])),
      email: true,
      phone: false,
      anonymous_users: auth.settings.signup === "anonymous",
    },
    disable_signup: !isSignupOpen(auth.settings),
    mailer_autoconfirm: auth.settings.emailConfirm !== "required",
    phone_autoconfirm: false,
    sms_provider: "",
    saml_enabled: providers.some(({ kind }) => kind === "saml"),
    passkeys_enabled: auth.passkeys?.isOn ?? false,
  };
}

function readKeys({ auth, response }: AuthCall): object {
  response.set("Cache-Control", "public, max-age=600");
  return auth.tokens.jwks();
}

/** Serves `/auth/v1`; other methods get 405, and other paths 404. */
export function authV1Router(auth: RoutedAuth): Router {
  const isServed = ([key]: readonly [string, unknown]) => auth.passkeys !== null || !key.includes("/passkeys");
  const router = Router({ strict: true, caseSensitive: true });
  // It is the path of no factor.
  router.all("/auth/v1/factors/recovery-codes{/*path}", () => {
    throw problem("no such path");
  });
  return router.use(routerOf(auth, Object.fromEntries(Object.entries(ROUTES).filter(isServed)), run, "/auth/v1"));
}

async function run({ handle }: V1Route, call: AuthCall): Promise<unknown> {
  await identityOf(call.request).requireValidKeys();
  return handle(call);
}

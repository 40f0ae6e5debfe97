import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { requireAccount } from "../../rest-gateway/auth/confirmation.ts";
import { setEmail, setPassword } from "../../rest-gateway/auth/login-changes.ts";
import { verifyPassword } from "../../rest-gateway/auth/passwords.ts";
import { refuseRaised } from "../../rest-gateway/auth/problem.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
import { signOut } from "../../rest-gateway/auth/sessions.ts";
import { type Client, guard, reserveLogin, settle } from "../../rest-gateway/auth/throttle.ts";
import { languagesOf } from "../../rest-gateway/conventions/languages.ts";
import { readAuthBody, UserChange } from "./bodies.ts";
import {
  type AuthCall,
  hasSecondFactor,
  requireRecent,
  requireSecondFactor,
  type SignedIn,
  signedInOf,
} from "./call.ts";
import { destinationIn } from "./destination.ts";
import { requireNonce } from "./email.ts";
import { invalid } from "./problem.ts";
import { findUserOf } from "./session.ts";
import { requireEmail, requireStrong, tooLarge } from "./sign-in.ts";

/** `GET /user` */
export const readUser = async (call: AuthCall): Promise<PublicUser> => (await signedInOf(call)).user;

/** `PUT /user`: changes the password, the e-mail or the metadata of the user. */
export async function changeUser(call: AuthCall): Promise<PublicUser> {
  const { auth, request, client } = call;
  const sent = await readAuthBody(request, auth.limits, UserChange);
  // After the body, which may arrive when the session has ended.
  const signedIn = await signedInOf(call);
  if (sent.phone) throw problem("phones off");
  if (sent.app_metadata) throw problem("metadata of administrators");
  requireSecondFactor(signedIn);
  const email = sent.email ? requireEmail(sent.email) : null;
  const changesEmail = email !== null && email !== signedIn.user.email;
  if (sent.password) requireStrong(call.auth, sent.password);
  if (signedIn.user.is_anonymous) {
    if (sent.password && !changesEmail) throw problem("password without e-mail");
  } else if (changesEmail || sent.password)
    await requireProof(call, signedIn, sent.current_password ?? null, sent.nonce);
  if (changesEmail) {
    const { userId: id, session } = signedIn;
    const languages = languagesOf(request.headers["accept-language"]);
    const mail = { ...destinationIn(call, "email_change", sent), languages };
    await setEmail(auth, { id, session }, email, client, mail);
  }
  if (sent.password) await changePassword(call, signedIn, sent.password);
  if (sent.data) {
    const max = auth.settings.userMetadataBytes;
    const values = [signedIn.userId, JSON.stringify(sent.data), String(max)];
    const merging = auth.functions.change<boolean>("merge_user_metadata($1, $2::jsonb, $3::integer)", values);
    if (!(await merging.catch(refuseRaised))) throw tooLarge(max);
  }
  return (await findUserOf(auth, signedIn.userId)) ?? signedIn.user;
}

/** A stolen token is not enough to take an account over: requires a recent sign-in, the current password, or the code of an e-mail. */
async function requireProof(
  call: AuthCall,
  signedIn: SignedIn,
  password: string | null,
  nonce: string | null = null,
): Promise<void> {
  const { auth, client } = call;
  if (password !== null) {
    const login = await verifyPassword(auth, { userId: signedIn.userId }, password, client, WRONG);
    return settle(auth, login.attempt, false);
  }
  if (nonce) return requireNonce(call, signedIn, nonce);
  requireRecent(auth, signedIn);
}

const WRONG = {
  event: "password_failed",
  error: () => problem("current password wrong"),
} as const;

/** Ends all other sessions of the user. */
async function changePassword({ auth, client }: AuthCall, { userId: id, session }: SignedIn, password: string) {
  const account = await requireAccount(auth, { id });
  const hash = await hashOther(auth, account, password, client);
  await setPassword(auth, { account, code: null }, hash, client, session);
}

/** `POST /logout?scope=` */
export async function logOut(call: AuthCall): Promise<void> {
  const { scope = "global" } = call.request.query;
  if (scope !== "local" && scope !== "others" && scope !== "global")
    throw invalid(`Unsupported logout scope "${String(scope).slice(0, 50)}"`);
  const signedIn = await signedInOf(call);
  const { userId: id, session } = signedIn;
  // The password alone ends no sign-in but its own.
  if (scope === "others") requireSecondFactor(signedIn);
  await signOut(call, { id, session }, scope === "global" && !hasSecondFactor(signedIn) ? "local" : scope, "token");
}

/**
 * The hash of a new password, which must not be the one that the account has. Reserves an attempt, which does not count. Rejects with
 * Problem "same password", and as verifyPassword.
 */
function hashOther(auth: Auth, { id, passwordHash }: Account, password: string, client: Client): Promise<string> {
  const { hashing } = auth;
  return hashing.inPlace(client, async () => {
    if (passwordHash !== null) {
      const { attempt } = await reserveLogin(auth, { userId: id }, client);
      const isSame = await guard(auth, attempt, hashing.matches(password, passwordHash, client));
      await settle(auth, attempt, false);
      if (isSame) throw problem("same password");
    }
    return hashing.hash(password, client);
  });
}

import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { Scope } from "../../rest-gateway/auth/own-sessions.ts";
import { emailRefused, refuseRaised } from "../../rest-gateway/auth/problem.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
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
    const outcome = await auth.repository.changeEmail({ id, session }, email, client.address, mail).catch(refuseRaised);
    if (outcome === "ended") throw problem("session ended");
    if (outcome !== "changed" && outcome !== "pending") throw emailRefused(outcome);
  }
  if (sent.password) await changePassword(call, signedIn, sent.password);
  if (sent.data) {
    const max = auth.settings.userMetadataBytes;
    const merge = auth.publicUsers.mergeMetadata(signedIn.userId, sent.data, max);
    if (!(await merge.catch(refuseRaised))) throw tooLarge(max);
  }
  auth.forget(signedIn.userId);
  return (await auth.publicUsers.find(signedIn.userId)) ?? signedIn.user;
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
    const login = await auth.passwords.verify({ userId: signedIn.userId }, password, client, WRONG);
    return auth.throttle.settle(login.attempt, false);
  }
  if (nonce) return requireNonce(call, signedIn, nonce);
  requireRecent(auth, signedIn);
}

const WRONG = {
  event: "password_failed",
  error: () => problem("current password wrong"),
} as const;

/** Ends all other sessions of the user. */
async function changePassword({ auth, client }: AuthCall, signedIn: SignedIn, password: string): Promise<void> {
  const { passwords, publicUsers, repository } = auth;
  const account: Account | null = await repository.accountOf(signedIn.userId);
  if (account === null) throw problem("revoked token");
  const hash = await passwords.hashOther(account, password, client);
  if (await publicUsers.setPassword(account, hash, signedIn.session, client.address)) return;
  throw problem("revoked token");
}

/** `POST /logout?scope=` */
export async function logOut(call: AuthCall): Promise<void> {
  const { auth, request, client } = call;
  const { scope = "global" } = request.query;
  if (scope !== "local" && scope !== "others" && scope !== "global")
    throw invalid(`Unsupported logout scope "${String(scope).slice(0, 50)}"`);
  const signedIn = await signedInOf(call);
  const { userId, session } = signedIn;
  // The password alone ends no sign-in but its own.
  if (scope === "others") requireSecondFactor(signedIn);
  await SCOPES[scope === "global" && !hasSecondFactor(signedIn) ? "local" : scope](auth, userId, session);
  auth.forget(userId);
  await auth.repository.note({ event: "logout", userId, address: client.address, detail: { by: "token", scope } });
}

const SCOPES: Readonly<Record<Scope, (auth: Auth, id: string, session: string) => Promise<unknown>>> = {
  local: ({ sessionRows }, id, session) => sessionRows.end(id, session),
  others: ({ sessionRows }, id, session) => sessionRows.endOthers({ id, session }),
  global: ({ sessionRows }, id) => sessionRows.endAll(id),
};

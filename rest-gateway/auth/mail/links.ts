import { Problem, problem } from "../../../db/problems/problem.ts";
import { html } from "../../../http/pages/html.ts";
import { badParameter } from "../../conventions/problem.ts";
import type { Auth } from "../auth.ts";
import { parse } from "../bodies.ts";
import { readForm, searchOf } from "../federated/browser.ts";
import { codeFieldOf, passkeyForCode } from "../pages/account-form.ts";
import { type Done, doneUrl } from "../pages/done.ts";
import {
  type Field,
  type FormState,
  fieldsIn,
  formOf,
  NAME,
  NEW_FORM,
  newPasswordField,
  stateAfter,
} from "../pages/form.ts";
import { sendPage } from "../pages/page.ts";
import { fieldsWithPasskey } from "../pages/passkey-button.ts";
import { pathOf } from "../pages/paths.ts";
import type { Call } from "../route.ts";
import { InvitationBody, LinkForm, ResetBody } from "./bodies.ts";
import { acceptOnPage } from "./invitations.ts";
import type { MailKind } from "./kinds.ts";
import { LINK_PATH } from "./mail.ts";
import type { Link } from "./repository.ts";
import { confirmEmail, linkOf, resetPassword, undoEmail } from "./requests.ts";
import { signInOnPage } from "./sign-in.ts";

/** What a link does: its page asks for a confirmation, and the form does it. Scanners of mail servers open links too. */
type Action = {
  readonly title: string;
  readonly about: string;
  readonly button: string;
  /** Besides the code of a second factor, which replaces a password only together with the link. */
  readonly fields: (auth: Auth) => readonly Field[];
  /** What has happened; null if the browser is signed in. */
  readonly done: Done | null;
  run(call: Call, form: LinkFields, link: Link): Promise<unknown>;
};

/** The fields of the form. A passkey is an object. */
type LinkFields = Readonly<Record<string, unknown>> & { readonly token: string };

const ACTIONS: Partial<Readonly<Record<MailKind, Action>>> = {
  confirm: {
    title: "Confirm your e-mail",
    about:
      "Confirm that {email} is your address, and that you have registered with it yourself. Otherwise close this page: " +
      "the person who has registered knows the password.",
    button: "Confirm",
    fields: () => [],
    done: "confirmed",
    run: (call, { token }) => confirmEmail({ ...call, signedIn: null, body: { token } }),
  },
  invitation: {
    title: "Create your account",
    about: "You are invited. You sign in with {email}.",
    button: "Create the account",
    fields: (auth) => [NAME, newPasswordField(auth)],
    done: null,
    run: (call, form, link) => acceptOnPage(call, parse(InvitationBody, form), link),
  },
  "sign-in": {
    title: "Sign in",
    about: "Sign in as {email} in this browser.",
    button: "Sign in",
    fields: () => [],
    done: null,
    run: (call, { token }, link) => signInOnPage(call, token, link),
  },
  "email-changed": {
    title: "Undo the change of your e-mail",
    about: "Sign in with {email} again. The password and all sign-ins end, and you choose a new password.",
    button: "Undo the change",
    fields: () => [],
    done: "undone",
    run: (call, { token }) => undoEmail({ ...call, signedIn: null, body: { token } }),
  },
  reset: {
    title: "Choose a new password",
    about: "It replaces the password of {email}, and ends all sign-ins of the account.",
    button: "Set the password",
    fields: (auth) => [newPasswordField(auth, "New password")],
    done: "reset",
    run: (call, form) => resetPassword({ ...call, signedIn: null, body: parse(ResetBody, form) }),
  },
};

/** `GET /auth/link?token=…`: the page that a link opens. It changes nothing. */
export async function showLink(call: Call): Promise<void> {
  const token = new URLSearchParams(searchOf(call.request)).get("token") ?? "";
  if (token === "") throw badParameter("token", "token is required: open the whole link of the e-mail");
  sendForm(call, await linkOf(call.auth, token), token);
}

/** `POST /auth/link`: the form of that page. After a mistake it is sent again. */
export async function useLink(call: Call): Promise<void> {
  const { auth, request, response } = call;
  const sent = await readForm(request);
  const { token } = parse(LinkForm, fieldsIn(sent));
  const link = await linkOf(auth, token);
  const { done, run } = actionOf(link);
  try {
    await run(call, { ...fieldsWithPasskey(sent), token }, link);
    if (done !== null) response.redirect(303, doneUrl(auth, done, link.data.returnTo));
  } catch (error) {
    const isMistake =
      error instanceof Problem && (error.more.faults !== undefined || error.reason === "second factor needed");
    if (!isMistake) throw error;
    sendForm(call, link, token, stateAfter(error, sent));
  }
}

function actionOf({ kind }: Link): Action {
  const action = ACTIONS[kind];
  if (action === undefined) throw problem("invalid link");
  return action;
}

function sendForm(call: Call, link: Link, token: string, state: FormState = NEW_FORM): void {
  const { title, about, button, fields: fieldsFor } = actionOf(link);
  const own = fieldsFor(call.auth);
  const isPassword = own.some(({ type }) => type === "password");
  const account = isPassword && link.account?.hasFactor ? link.account : null;
  const fields = account === null ? own : [...own, codeFieldOf(account)];
  const passkey = account && passkeyForCode(call.auth, account);
  const action = pathOf(call.auth, LINK_PATH);
  const username = isPassword ? link.email : null;
  const form = formOf({ action, fields, hidden: { token }, username, button, after: passkey, isFocused: true }, state);
  const main = html`<p>${about.replace("{email}", () => link.email)}</p>\n${form}`;
  sendPage(call, { title, status: state.status, main, hasPasskeyButton: passkey !== null });
}

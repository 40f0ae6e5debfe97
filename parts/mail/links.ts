import { type Html, html } from "../../gate/pages/html.ts";
import type { Account } from "../../identity/account.ts";
import { Problem, problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { parse, readForm } from "../../rest-gateway/auth/bodies.ts";
import { codeFieldOf, passkeyForCode } from "../../rest-gateway/auth/pages/code-form.ts";
import {
  type Field,
  type FormState,
  fieldsIn,
  formOf,
  NAME,
  NEW_FORM,
  newPasswordField,
  stateAfter,
} from "../../rest-gateway/auth/pages/form.ts";
import { openAgain, sendPage } from "../../rest-gateway/auth/pages/page.ts";
import { fieldsWithPasskey } from "../../rest-gateway/auth/pages/passkey-button.ts";
import { LINK_PATH, pathOf, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { MAX_PASSWORD } from "../../rest-gateway/auth/passwords.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";
import { searchOf } from "../../rest-gateway/conventions/parameters.ts";
import { badParameter } from "../../rest-gateway/conventions/problem.ts";
import { continueAtTarget, failAtTarget, type Target, targetOf } from "./applications.ts";
import { ConfirmationBody, InvitationBody, LinkForm, ResetBody } from "./bodies.ts";
import { confirmEmail, confirmLink, isOwnAccount, takesNewPassword } from "./confirmations.ts";
import { type Done, doneUrl } from "./done.ts";
import { acceptOnPage } from "./invitations.ts";
import type { MailKind } from "./kinds.ts";
import type { Link } from "./repository.ts";
import { linkOf, resetPassword, undoEmail } from "./requests.ts";
import { signInOnPage } from "./sign-in.ts";

/** What a link does: its page asks for a confirmation, and the form does it. Scanners of mail servers open links too. */
type Action = {
  readonly title: string;
  readonly about: string;
  readonly button: string;
  /** Besides the code of a second factor, which replaces a password only together with the link. */
  readonly fields: (auth: Auth, link: Link) => readonly Field[];
  /** What has happened; null if the browser is signed in. */
  readonly done: Done | null;
  /** Whether the form has a button for those who do not know the account. */
  readonly declines?: boolean;
  run(call: Call, form: LinkFields, link: Link): Promise<unknown>;
};

/** The fields of the form. A passkey is an object. */
type LinkFields = Readonly<Record<string, unknown>> & { readonly token: string };

const ACTIONS: Partial<Readonly<Record<MailKind, Action>>> = {
  confirm: {
    title: "Confirm your e-mail",
    about: "Confirm that {email} is your address.",
    button: "Confirm",
    fields: () => [],
    done: "confirmed",
    run: (call, { decline, ...form }) =>
      confirmEmail({
        ...{ ...call, signedIn: null },
        body: parse(ConfirmationBody, { ...form, decline: decline !== undefined }),
      }),
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

/** What links do that sign an application in, where it differs. */
const AT_TARGET: Partial<Readonly<Record<string, Action>>> = {
  "sign-in": { ...ACTIONS["sign-in"]!, about: "Sign in as {email} at {target}." },
  confirmed: { ...ACTIONS["sign-in"]!, about: "Sign in as {email} at {target}." },
  reset: {
    ...ACTIONS.reset!,
    about: "Sign in as {email} at {target}, and choose a new password there.",
    button: "Continue",
    fields: () => [],
  },
};

const ENDS_PASSWORD =
  "The address was never confirmed: the password of the account, and everything that was set up before, ends.";

/** The page of a confirmation in a browser that is not that of the account, or of an address that another person has entered. */
const UNPROVED: Action = {
  ...ACTIONS.confirm!,
  about:
    "Confirm that {email} is your address. If you do not know the password of the account, or another person has " +
    "entered your address, choose a new password: everything that was set up before ends.",
  fields: (auth, { account, ...link }) => [
    ...(account!.passwordHash === null ? [] : [OWN_PASSWORD]),
    ...(takesNewPassword({ account, ...link })
      ? [{ ...newPasswordField(auth, "New password"), name: "newPassword", isOptional: true } as const]
      : []),
  ],
  declines: true,
};

/** The same where only its user confirms. */
const UNPROVED_CHANGE: Action = {
  ...UNPROVED,
  about:
    "A user wants to sign in with {email} from now on. If the account is yours, enter its password, or sign in to it in " +
    "this browser. If you do not know the account, do not confirm: otherwise your address belongs to another person.",
};

const OWN_PASSWORD: Field = {
  name: "password",
  label: "Password of the account",
  type: "password",
  autocomplete: "current-password",
  maxlength: MAX_PASSWORD,
  isOptional: true,
};

/** `GET /auth/link?token=…`: the page that a link opens. It changes nothing. */
export async function showLink(call: Call): Promise<void> {
  const query = new URLSearchParams(searchOf(call.request));
  const token = query.get("token") ?? "";
  if (token === "") throw badParameter("token", "token is required: open the whole link of the e-mail");
  try {
    const opened = await open(call, token, query);
    if (!opened.action.declines || !openAgain(call)) sendForm(call, opened);
  } catch (error) {
    failAtTarget(call, targetOf(call.auth, null, query), error);
  }
}

/** A link, what it does, and the application that it signs in. */
type OpenedLink = {
  readonly token: string;
  readonly link: Link;
  readonly target: Target | null;
  readonly action: Action;
};

/** Rejects with Problem if the token is not valid. */
async function open(call: Call, token: string, query: URLSearchParams): Promise<OpenedLink> {
  const link = await linkOf(call.auth, token);
  const target = targetOf(call.auth, link, query);
  return { token, link, target, action: await actionOf(call, link, target) };
}

/** `POST /auth/link`: the form of that page. After a mistake it is sent again. */
export async function useLink(call: Call): Promise<void> {
  const sent = await readForm(call.request);
  const { token } = parse(LinkForm, fieldsIn(sent));
  const form: LinkFields = { ...fieldsWithPasskey(sent), token };
  let opened: OpenedLink | null = null;
  try {
    opened = await open(call, token, sent);
    await press(call, opened, form);
  } catch (error) {
    const isMistake =
      error instanceof Problem && (error.more.faults !== undefined || error.reason === "second factor needed");
    if (opened !== null && isMistake) return sendForm(call, opened, stateAfter(error, sent));
    failAtTarget(call, opened === null ? targetOf(call.auth, null, sent) : opened.target, error);
  }
}

async function press(call: Call, { token, link, target, action }: OpenedLink, form: LinkFields): Promise<void> {
  const { auth, response } = call;
  const isDeclined = link.kind === "confirm" && form.decline !== undefined;
  if (target !== null && !isDeclined) {
    const user = link.kind === "confirm" ? await confirmLink(call, link, parse(ConfirmationBody, form)) : null;
    return continueAtTarget(call, target, link, token, user);
  }
  await action.run(call, form, link);
  if (isDeclined) response.redirect(303, doneUrl(auth, "declined"));
  else if (action.done !== null) response.redirect(303, doneUrl(auth, action.done, link.data.returnTo));
}

/** The second factor of an account whose e-mail was not confirmed may be that of another person. */
const optionalCode = (account: Account): Field => ({
  ...codeFieldOf(account),
  isOptional: true,
  hint: "If you have not enabled a second factor, or have lost it, leave this empty: it is removed.",
});

async function actionOf(
  call: Call,
  { kind, needsProof, account, ...link }: Link,
  target: Target | null,
): Promise<Action> {
  const action = (target && AT_TARGET[kind]) ?? ACTIONS[kind];
  if (action === undefined) throw problem("invalid link");
  if (kind === "sign-in" && account && account.emailConfirmedAt === null && account.passwordHash && !account.hasFactor)
    return { ...action, about: `${action.about} ${ENDS_PASSWORD}` };
  if (!needsProof || (await isOwnAccount(call, account!))) return action;
  return link.claims ? UNPROVED : UNPROVED_CHANGE;
}

const DECLINE = html`<button class="quiet" name="decline" value="true" formnovalidate>This is not my account</button>`;

/** The sign-in, which leads back to the link. */
function signInLink({ auth }: Call, { token, target }: OpenedLink): Html | null {
  if (!auth.hasAccountPages) return null;
  const link = new URLSearchParams({ token, ...target?.sent }).toString();
  const query = new URLSearchParams({ return_to: `${pathOf(auth, LINK_PATH)}?${link}` }).toString();
  return html`<p><a href="${pathOf(auth, SIGN_IN_PATH)}?${query}">Sign in to the account</a></p>`;
}

function sendForm(call: Call, opened: OpenedLink, state: FormState = NEW_FORM): void {
  const { token, link, target } = opened;
  const { title, about, button, fields: fieldsFor, declines = false } = opened.action;
  const own = fieldsFor(call.auth, link);
  const isPassword = own.some(({ type }) => type === "password");
  const account = link.kind === "reset" && target === null && link.account?.hasFactor ? link.account : null;
  const fields = account === null ? own : [...own, link.keepsFactor ? codeFieldOf(account) : optionalCode(account)];
  const passkey = account && passkeyForCode(call.auth, account);
  const action = pathOf(call.auth, LINK_PATH);
  const username = isPassword ? link.email : null;
  const form = formOf(
    {
      ...{ action, fields, hidden: { token, ...target?.sent }, username, isFocused: true },
      // Without a password, only a sign-in shows whose the account is.
      button: declines && fields.length === 0 ? null : button,
      after: declines ? DECLINE : passkey,
    },
    state,
  );
  const signIn = declines && !link.claims ? signInLink(call, opened) : null;
  const values: Readonly<Record<string, string>> = {
    email: link.email,
    target: target === null ? "" : new URL(target.returnTo).host,
  };
  const main = html`<p>${about.replace(/\{(\w+)\}/g, (_, name: string) => values[name]!)}</p>\n${form}\n${signIn}`;
  sendPage(call, { title, status: state.status, main, hasPasskeyButton: passkey !== null });
}

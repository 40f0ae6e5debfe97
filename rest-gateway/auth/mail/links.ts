import type { Response } from "express";
import type { z } from "zod";
import { Problem, problem } from "../../../db/problems/problem.ts";
import { escapeMarkup } from "../../../http/pipeline/response.ts";
import { badParameter } from "../../conventions/problem.ts";
import { parse } from "../bodies.ts";
import { readForm, searchOf } from "../federated/browser.ts";
import { sendPage, sentence } from "../federated/pages.ts";
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
  /** Whether the form has a field for a new password. */
  readonly hasPassword?: true;
  /** Whether the form has a field for the name of a new user. */
  readonly hasName?: true;
  /** What has happened, for people. */
  readonly done: string;
  /** May send the response itself. */
  run(call: Call, form: z.infer<typeof LinkForm>, link: Link): Promise<unknown>;
};

const ACTIONS: Partial<Readonly<Record<MailKind, Action>>> = {
  confirm: {
    title: "Confirm your e-mail",
    about: "Confirm that {email} is your address, and that you have registered with it.",
    button: "Confirm",
    done: "The e-mail is confirmed.",
    run: (call, { token }) => confirmEmail({ ...call, signedIn: null, body: { token } }),
  },
  invitation: {
    title: "Create your account",
    about: "You sign in with {email}.",
    button: "Create the account",
    hasName: true,
    hasPassword: true,
    done: "Your account is ready.",
    run: (call, form, link) => acceptOnPage(call, parse(InvitationBody, form), link),
  },
  "sign-in": {
    title: "Sign in",
    about: "Sign in as {email} in this browser.",
    button: "Sign in",
    done: "You are signed in.",
    run: (call, { token }, link) => signInOnPage(call, token, link),
  },
  "email-changed": {
    title: "Undo the change of your e-mail",
    about: "Sign in with {email} again. The password and all sign-ins end, and you choose a new password.",
    button: "Undo the change",
    done: "The change is undone. An e-mail to choose a new password is on its way.",
    run: (call, { token }) => undoEmail({ ...call, signedIn: null, body: { token } }),
  },
  reset: {
    title: "Choose a new password",
    about: "It replaces the password of {email}, and ends all sign-ins of the account.",
    button: "Set the password",
    hasPassword: true,
    done: "The password is changed. Sign in with it from now on.",
    run: (call, form) => resetPassword({ ...call, signedIn: null, body: parse(ResetBody, form) }),
  },
};

/** `GET /auth/link?token=…`: the page that a link opens. It changes nothing. */
export async function showLink({ auth, request, response }: Call): Promise<void> {
  const token = new URLSearchParams(searchOf(request)).get("token") ?? "";
  if (token === "") throw badParameter("token", "token is required: open the whole link of the e-mail");
  const link = await linkOf(auth, token);
  sendForm(response, 200, auth.federated.url, { link, action: actionOf(link), token, problem: null });
}

/** `POST /auth/link`: the form of that page. After a mistake it is sent again. */
export async function useLink(call: Call): Promise<void> {
  const { auth, request, response } = call;
  const fields = [...(await readForm(request))].filter(([, value]) => value !== "");
  const form = parse(LinkForm, Object.fromEntries(fields));
  const { token } = form;
  const link = await linkOf(auth, token);
  const action = actionOf(link);
  try {
    await action.run(call, form, link);
    if (!response.headersSent) sendDone(response, action, link);
  } catch (error) {
    const isMistake =
      error instanceof Problem && (error.more.faults !== undefined || error.reason === "second factor needed");
    if (!isMistake) throw error;
    sendForm(response, error.status, auth.federated.url, { link, action, token, problem: error.message });
  }
}

function actionOf({ kind }: Link): Action {
  const action = ACTIONS[kind];
  if (action === undefined) throw problem("invalid link");
  return action;
}

type Form = { readonly link: Link; readonly action: Action; readonly token: string; readonly problem: string | null };

function sendForm(response: Response, status: number, url: string, { link, action, token, problem }: Form): void {
  const { title, about, button, hasName, hasPassword } = action;
  const fault = problem === null ? "" : `<p class="error" role="alert">${escapeMarkup(sentence(problem))}</p>\n`;
  const body = `<form method="post" action="${escapeMarkup(new URL(`${url}${LINK_PATH}`).pathname)}">
<p>${escapeMarkup(about.replace("{email}", () => link.email))}</p>
${fault}<input type="hidden" name="token" value="${escapeMarkup(token)}">
${hasName ? NAME_FIELD : ""}${hasPassword ? PASSWORD_FIELD : ""}${hasPassword && link.account?.hasFactor ? CODE_FIELD : ""}<button>${escapeMarkup(button)}</button>
</form>`;
  sendPage(response, status, title, body);
}

const NAME_FIELD = `<label for="name">Name</label>
<input id="name" name="name" autocomplete="name" required maxlength="200">
`;

const PASSWORD_FIELD = `<label for="password">New password</label>
<input id="password" name="password" type="password" autocomplete="new-password" required maxlength="128">
<p class="soft">At least 12 characters, with an upper case letter, a lower case letter, a digit and a special character.</p>
`;

const CODE_FIELD = `<label for="code">Code of your authenticator app, or a backup code</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="characters" spellcheck="false" required>
`;

function sendDone(response: Response, { title, done }: Action, { data: { returnTo } }: Link): void {
  const next = returnTo ? `\n<p><a class="button" href="${escapeMarkup(returnTo)}">Continue</a></p>` : "";
  sendPage(response, 200, title, `<p role="status">${escapeMarkup(done)}</p>${next}`);
}

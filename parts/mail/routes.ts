import { accepted, MessageAnswer, ok, page, SignedInAnswer } from "../../rest-gateway/auth/answers.ts";
import { MailBody, MailCodeBody } from "../../rest-gateway/auth/mail/bodies.ts";
import { LINK_PATH } from "../../rest-gateway/auth/pages/paths.ts";
import { type Routes, route } from "../../rest-gateway/auth/route.ts";
import { ConfirmationBody, InvitationBody, LinkForm, ResetBody, TokenBody } from "./bodies.ts";
import { confirmEmail } from "./confirmations.ts";
import { DONE_PATH, showDone } from "./done.ts";
import { acceptInvitation, invite } from "./invitations.ts";
import { showLink, useLink } from "./links.ts";
import { requestMail, resetPassword, undoEmail } from "./requests.ts";
import { signInWithCode, signInWithLink } from "./sign-in.ts";

const SENT = accepted("An e-mail is on its way, for every address.", MessageAnswer);
const NOT_VALID = "This link does not work";

/** The routes of sign-in by e-mail. */
export const MAIL_ROUTES: Routes = {
  "POST /auth/forgot": route({
    operationId: "requestReset",
    summary: "Request an e-mail to reset the password",
    description:
      "The response is the same for every address. An address without an account, or with a disabled one, gets an e-mail that says so.",
    credential: "none",
    body: MailBody,
    answer: SENT,
    handle: requestMail("reset"),
  }),
  "POST /auth/reset": route({
    operationId: "resetPassword",
    summary: "Reset the password",
    description:
      "Sets a password with the token of the e-mail, which is valid once. Ends all tokens and sessions of the user. Needs a `code` if a second factor is enabled.",
    credential: "none",
    body: ResetBody,
    answer: ok("The password is changed.", MessageAnswer),
    problems: [401],
    handle: resetPassword,
  }),
  "POST /auth/confirm/send": route({
    operationId: "requestConfirmation",
    summary: "Request an e-mail to confirm the address",
    description: "The response is the same for every address, as at `/auth/forgot`.",
    credential: "none",
    body: MailBody,
    answer: SENT,
    handle: requestMail("confirm"),
  }),
  "POST /auth/confirm": route({
    operationId: "confirmEmail",
    summary: "Confirm the e-mail",
    description:
      "Takes the token of the e-mail, which is valid once. The account stays as it is only if the client has registered it in the same browser, is signed in to it with a token or a cookie, or sends its `password`. Otherwise the confirmation needs a `newPassword`, and all that was issued to the account before ends; a change of the e-mail is refused. Without a proof, the response is 400 and the token stays valid. With `decline`, the link ends, and confirms nothing.",
    credential: "none",
    body: ConfirmationBody,
    answer: ok("The e-mail is confirmed.", MessageAnswer),
    problems: [401],
    handle: confirmEmail,
  }),
  "POST /auth/email/undo": route({
    operationId: "undoEmail",
    summary: "Undo a change of the e-mail",
    description:
      "Takes the token that the previous e-mail of the account has received, within 24 hours. The account signs in with that e-mail again. Its password, tokens, sessions, API keys and identities end, and an e-mail to choose a new password follows.",
    credential: "none",
    body: TokenBody,
    answer: ok("The change is undone.", MessageAnswer),
    problems: [401],
    handle: undoEmail,
  }),
  "POST /auth/invitations": route({
    operationId: "invite",
    summary: "Invite a user",
    description:
      "For administrators and the service key. Sends an e-mail with a link to create an account. If the address has an account, the e-mail says so. Not with `SIGNUP=off`.",
    credential: "operator",
    body: MailBody,
    answer: accepted("The e-mail is on its way.", MessageAnswer),
    handle: invite,
  }),
  "POST /auth/invitations/accept": route({
    operationId: "acceptInvitation",
    summary: "Accept an invitation",
    description:
      "Creates a user with an account for the invited address, with the token of the e-mail, and signs the user in. The e-mail is confirmed. Not with `SIGNUP=off`.",
    credential: "none",
    body: InvitationBody,
    answer: ok("Tokens.", SignedInAnswer),
    problems: [401, 403, 409],
    handle: acceptInvitation,
  }),
  "POST /auth/login/mail": route({
    operationId: "requestSignIn",
    summary: "Request an e-mail to sign in without a password",
    description: "The e-mail has a link and a code. The response is the same for every address, as at `/auth/forgot`.",
    credential: "none",
    body: MailBody,
    answer: SENT,
    handle: requestMail("sign-in"),
  }),
  "POST /auth/login/link": route({
    operationId: "signInWithLink",
    summary: "Sign in with the link of an e-mail",
    description:
      "Takes the token of the e-mail, which is valid once. If a second factor is enabled, the response is 401 `MFA_REQUIRED` with a `challenge` for `POST /auth/login`.",
    credential: "none",
    body: TokenBody,
    answer: ok("Tokens.", SignedInAnswer),
    problems: [401],
    handle: signInWithLink,
  }),
  "POST /auth/login/code": route({
    operationId: "signInWithMailCode",
    summary: "Sign in with the code of an e-mail",
    description:
      "The newest code of the address is valid once, and until 5 wrong ones were sent. If a second factor is enabled, the response is 401 `MFA_REQUIRED` with a `challenge` for `POST /auth/login`.",
    credential: "none",
    body: MailCodeBody,
    answer: ok("Tokens.", SignedInAnswer),
    problems: [401],
    handle: signInWithCode,
  }),
  [`GET ${LINK_PATH}`]: route({
    operationId: "openLink",
    summary: "Open the link of an e-mail",
    description:
      "A page with a form that uses the link. Opening it changes nothing. Errors are pages if the client accepts HTML, or in the fragment of `redirect_to`.",
    query: {
      token: "The token of the link.",
      wire: "The API over which an application has requested the link.",
      redirect_to: "The page of the application that the link signs in.",
    },
    credential: "none",
    answer: page("The page."),
    problems: [400, 401],
    errorPage: NOT_VALID,
    handle: showLink,
  }),
  [`POST ${LINK_PATH}`]: route({
    operationId: "useLink",
    summary: "Use the link of an e-mail",
    description:
      "The form of the page that the link opens. After a mistake, the page is sent again. If a second factor is enabled, a sign-in gets the page that asks for its code.",
    credential: "none",
    sameOrigin: true,
    form: LinkForm,
    answer: { ...page("Where the browser continues."), status: 303, headers: ["Location"] },
    problems: [400, 401, 403],
    errorPage: NOT_VALID,
    handle: useLink,
  }),
  [`GET ${DONE_PATH}`]: route({
    operationId: "showDone",
    summary: "Say what a form has changed",
    description: "The page at which a browser continues after a form.",
    query: { of: "What has happened.", return_to: "Where the user continues." },
    credential: "none",
    answer: page("The page."),
    handle: showDone,
  }),
};

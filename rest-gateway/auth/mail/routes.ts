import { queryParameter } from "../../openapi/schema-parts.ts";
import { accepted, MessageAnswer, ok } from "../answers.ts";
import { type Answer, type Routes, route } from "../route.ts";
import { LinkForm, MailBody, ResetBody } from "./bodies.ts";
import { showLink, useLink } from "./links.ts";
import { LINK_PATH } from "./mail.ts";
import { requestMail, resetPassword } from "./requests.ts";

const SENT = accepted("An e-mail is on its way, for every address.", MessageAnswer);
const page = (about: string): Answer<unknown> => ({ ...ok(about), text: "text/html" });
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
  [`GET ${LINK_PATH}`]: route({
    operationId: "openLink",
    summary: "Open the link of an e-mail",
    description:
      "A page with a form that uses the link. Opening it changes nothing. Errors are pages if the client accepts HTML.",
    parameters: [queryParameter("token", "The token of the link.")],
    credential: "none",
    answer: page("The page."),
    problems: [400, 401],
    errorPage: NOT_VALID,
    handle: showLink,
  }),
  [`POST ${LINK_PATH}`]: route({
    operationId: "useLink",
    summary: "Use the link of an e-mail",
    description: "The form of the page that the link opens. After a mistake, the page is sent again.",
    credential: "none",
    sameOrigin: true,
    form: LinkForm,
    answer: page("What the link has changed."),
    problems: [400, 401, 403],
    errorPage: NOT_VALID,
    handle: useLink,
  }),
};

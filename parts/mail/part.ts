import type { CreateMails } from "../../rest-gateway/auth/mail/mails.ts";
import type { Part } from "../../service/part.ts";
import { markBrowser } from "./confirmations.ts";
import { mailPage } from "./console-page.ts";
import { doneUrl } from "./done.ts";
import { findLink } from "./repository.ts";
import { requestMailFor } from "./requests.ts";
import { MAIL_ROUTES } from "./routes.ts";
import { MailService, mailOf, type OwnMails } from "./service.ts";
import { takeCode } from "./sign-in.ts";
import { Templates } from "./templates.ts";

const createMails: CreateMails = (options): OwnMails => {
  const service = new MailService(options);
  return {
    service,
    isOn: service.isOn,
    isKept: service.isKept,
    tasks: service.tasks,
    kept: (total) => service.kept(total),
    request: requestMailFor,
    takeCode,
    hashOfCode: (code) => service.hashOfCode(code),
    findLink,
    markBrowser,
    doneUrl,
    start: () => service.start(),
    purge: () => service.purge(),
    close: () => service.close(),
  };
};

export const mail: Part = {
  name: "mail",
  needs: ["tasks"],
  about: "e-mails: resets of passwords, confirmations, invitations, notices, and sign-in by them",
  authRoutes: MAIL_ROUTES,
  mails: createMails,
  open({ auth, metrics }) {
    if (auth) mailOf(auth).registerMetrics(metrics);
    return {};
  },
  consolePages: ({ auth }) => (auth?.mails?.isKept ? [mailPage(auth.mails)] : []),
  check: ({ mailFolder }, { hasAuth }) => {
    if (hasAuth) new Templates(mailFolder);
  },
};

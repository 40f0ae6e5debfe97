import { type Html, html, type Value } from "../../gate/pages/html.ts";
import type { KeptMail, Mails } from "../../rest-gateway/auth/mail/mails.ts";
import type { View } from "./console.ts";
import { CONSOLE } from "./path.ts";
import { records, stampOf } from "./table.ts";

export const MAIL = `${CONSOLE}/mail`;

/** E-mails on the page. */
const MAX_MAILS = 100;

/** `/console/mail`: the e-mails that are kept instead of sent, with MAIL_URL=keep. */
export function mailView(mails: Pick<Mails, "kept">): View {
  return {
    path: MAIL,
    name: "Mail",
    icon: "mail",
    async render({ query }) {
      const kept = await mails.kept(MAX_MAILS);
      const chosen = kept.find(({ id }) => id === query.get("id")) ?? null;
      return html`
<h1>Mail</h1>
<p>E-mails are kept here and not sent. To send them, set <code>MAIL_URL</code>.</p>
${chosen && mailOf(chosen)}
${kept.length === 0 ? html`<p class="empty">There is no e-mail yet.</p>` : mailsTable(kept)}`;
    },
  };
}

export const mailsTable = (mails: readonly KeptMail[]): Html =>
  records(["Subject", "To", "Sent (UTC)"], mails.map(rowOf));

const rowOf = ({ id, sentAt, to, subject }: KeptMail): Value[] => [
  html`<a href="${MAIL}?id=${id}">${subject}</a>`,
  to,
  stampOf(sentAt),
];

function mailOf({ to, subject, text }: KeptMail): Html {
  const parts = text.split(/(https?:\/\/\S+)/);
  return html`<section aria-label="The chosen e-mail"><h2>${subject}</h2><p class="muted">To ${to}</p>
<pre class="letter">${parts.map((part, i) => (i % 2 === 0 ? part : html`<a href="${part}">${part}</a>`))}</pre></section>`;
}

import { type Html, html, type Value } from "../../gate/pages/html.ts";
import { records, stampOf } from "../../gate/pages/table.ts";
import type { KeptMail, Mails } from "../../rest-gateway/auth/mail/mails.ts";
import type { ConsolePage } from "../../service/part.ts";

const PATH = "/console/mail";

/** E-mails on the page, and in the section of the newest ones. */
const MAX_MAILS = 100;
const MAX_NEWEST = 8;

/** `/console/mail`: the e-mails that are kept instead of sent, with MAIL_URL=keep. */
export const mailPage = (mails: Pick<Mails, "kept">): ConsolePage => ({
  path: PATH,
  name: "Mail",
  icon: "mail",
  async render(query) {
    const kept = await mails.kept(MAX_MAILS);
    const chosen = kept.find(({ id }) => id === query.get("id")) ?? null;
    return html`
<h1>Mail</h1>
<p>E-mails are kept here and not sent. To send them, set <code>MAIL_URL</code>.</p>
${chosen && mailOf(chosen)}
${mailsTable(kept)}`;
  },
  newest: async () => html`<h2>E-mails</h2>
${mailsTable(await mails.kept(MAX_NEWEST))}<p><a href="${PATH}">All e-mails</a></p>`,
});

const mailsTable = (mails: readonly KeptMail[]): Html =>
  mails.length === 0
    ? html`<p class="empty">There is no e-mail yet.</p>`
    : records(["Subject", "To", "Sent (UTC)"], mails.map(rowOf));

const rowOf = ({ id, sentAt, to, subject }: KeptMail): Value[] => [
  html`<a href="${PATH}?id=${id}">${subject}</a>`,
  to,
  stampOf(sentAt),
];

function mailOf({ to, subject, text }: KeptMail): Html {
  const parts = text.split(/(https?:\/\/\S+)/);
  return html`<section aria-label="The chosen e-mail"><h2>${subject}</h2><p class="muted">To ${to}</p>
<pre class="letter">${parts.map((part, i) => (i % 2 === 0 ? part : html`<a href="${part}">${part}</a>`))}</pre></section>`;
}

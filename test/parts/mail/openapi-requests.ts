import { linkIn, startMailServer } from "../../support/mail-server.ts";
import type { ApiReply, ApiSent } from "../../support/resource-client.ts";

type Ask = (request: string, sent?: ApiSent) => Promise<ApiReply>;

const EMAIL = "erin@test.example";
/** The subjects of e-mails that were requested. */
const WITH_LINK = /^(Confirm|Reset|Sign in) /;
const PASSWORD = "Another-Horse-9?";
const FORM = { "content-type": "application/x-www-form-urlencoded", accept: "text/html" };

/** The settings of a service that sends its e-mails to a server of its own, and what uses each of its routes. */
export async function startMails() {
  const server = await startMailServer();
  const tokenFor = async (ask: Ask, request: string) => {
    await ask(request, { body: { email: EMAIL } });
    return linkIn(await server.next(EMAIL, WITH_LINK)).token;
  };
  const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
    headers: { ...FORM, ...headers },
    body: new URLSearchParams(fields).toString(),
  });
  return {
    settings: { ...server.settings, mailsPerRecipient: 1000 },
    use: async (ask: Ask) => {
      const account = { name: "Erin", email: EMAIL, password: "Correct-Horse-7!" };
      const { json } = await ask("POST /auth/register", { body: account });
      const headers = { authorization: `Bearer ${json.accessToken}` };
      for (const body of [{}, { more: "x".repeat(5000) }]) await ask("POST /auth/invitations", { as: "admin", body });
      const text = { "content-type": "text/plain" };
      await ask("POST /auth/invitations", { as: "admin", headers: text, body: "a=b" });
      await ask("POST /auth/invitations", { as: "admin", body: { email: "erna@test.example" } });
      const invitation = linkIn(await server.next("erna@test.example")).token;
      const acceptance = { token: invitation, name: "Erna", password: PASSWORD };
      for (let i = 0; i < 2; i++) await ask("POST /auth/invitations/accept", { body: acceptance });
      await ask("POST /auth/invitations", { as: "admin", body: { email: "erwin@test.example" } });
      const late = linkIn(await server.next("erwin@test.example")).token;
      await ask("POST /auth/register", { body: { ...account, email: "erwin@test.example" } });
      await ask("POST /auth/invitations/accept", { body: { ...acceptance, token: late } });
      const confirmation = await tokenFor(ask, "POST /auth/confirm/send");
      await ask("POST /auth/confirm", { body: { token: confirmation } });
      const { password } = account;
      for (let i = 0; i < 2; i++) await ask("POST /auth/confirm", { body: { token: confirmation, password } });
      await ask("POST /auth/email", { headers, body: { email: "erin2@test.example" } });
      const undo = linkIn(await server.next(EMAIL, /has changed/)).token;
      for (let i = 0; i < 2; i++) await ask("POST /auth/email/undo", { body: { token: undo } });
      await server.next(EMAIL, WITH_LINK);
      const token = await tokenFor(ask, "POST /auth/forgot");
      await ask("POST /auth/reset", { body: { token, password: PASSWORD } });
      await ask("POST /auth/reset", { body: { token, password: PASSWORD } });
      const link = await tokenFor(ask, "POST /auth/login/mail");
      for (let i = 0; i < 2; i++) await ask("POST /auth/login/link", { body: { token: link } });
      await ask("POST /auth/login/mail", { body: { email: EMAIL } });
      const [code] = /^\d{6}$/m.exec((await server.next(EMAIL, WITH_LINK)).text)!;
      for (let i = 0; i < 2; i++) await ask("POST /auth/login/code", { body: { email: EMAIL, code } });
      const other = await tokenFor(ask, "POST /auth/forgot");
      await ask(`GET /auth/link?token=${other}`);
      await ask("GET /auth/link?token=unknown");
      await ask("POST /auth/link", form({ token: other, password: "short" }));
      await ask("POST /auth/link", form({ token: other, password: PASSWORD }, { origin: "https://elsewhere.example" }));
      await ask("POST /auth/link", form({ token: other, password: "x".repeat(200_000) }));
      await ask("POST /auth/link", form({ token: other, password: PASSWORD }));
      await ask("POST /auth/link", form({ token: other, password: PASSWORD }));
    },
  };
}

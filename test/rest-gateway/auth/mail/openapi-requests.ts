import { linkIn, startMailServer } from "../../../support/mail-server.ts";
import type { ApiReply, ApiSent } from "../../../support/resource-client.ts";

type Ask = (request: string, sent?: ApiSent) => Promise<ApiReply>;

const EMAIL = "erin@test.example";
const PASSWORD = "Another-Horse-9?";
const FORM = { "content-type": "application/x-www-form-urlencoded", accept: "text/html" };

/** The settings of a service that sends its e-mails to a server of its own, and what uses each of its routes. */
export async function startMails() {
  const server = await startMailServer();
  const tokenFor = async (ask: Ask, request: string) => {
    await ask(request, { body: { email: EMAIL } });
    return linkIn(await server.next(EMAIL)).token;
  };
  const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
    headers: { ...FORM, ...headers },
    body: new URLSearchParams(fields).toString(),
  });
  return {
    settings: { ...server.settings, MAILS_PER_RECIPIENT: "1000" },
    use: async (ask: Ask) => {
      await ask("POST /auth/register", { body: { name: "Erin", email: EMAIL, password: "Correct-Horse-7!" } });
      const confirmation = await tokenFor(ask, "POST /auth/confirm/send");
      for (let i = 0; i < 2; i++) await ask("POST /auth/confirm", { body: { token: confirmation } });
      const token = await tokenFor(ask, "POST /auth/forgot");
      await ask("POST /auth/reset", { body: { token, password: PASSWORD } });
      await ask("POST /auth/reset", { body: { token, password: PASSWORD } });
      const link = await tokenFor(ask, "POST /auth/login/mail");
      for (let i = 0; i < 2; i++) await ask("POST /auth/login/link", { body: { token: link } });
      await ask("POST /auth/login/mail", { body: { email: EMAIL } });
      const [code] = /^\d{6}$/m.exec((await server.next(EMAIL)).text)!;
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

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServerClient, parseCookieHeader, serializeCookieHeader } from "@supabase/ssr";
import { createClient } from "@supabase/supabase-js";

/**
 * Pages that a server of yours renders for the user of their cookies, with `@supabase/ssr`. Scripts in the browser have no token. Users sign up, confirm
 * their e-mail, reset the password and accept invitations here, if the service has AUTH_PAGES_URL=http://localhost:5174/link. With a
 * service key, which never leaves this server, administrators invite others.
 *
 *   node demo/pages/server-rendered/server.ts http://127.0.0.1:3000 <anon key> [<service key>]
 */
export const createSite = (api: string, key: string, serviceKey = ""): Server =>
  createServer((request, response) => {
    const client = clientOf(api, key, request, response);
    answer(client, inviterOf(api, serviceKey), request, response).catch((error: Error) => {
      console.error(error);
      if (!response.headersSent) send(response, 500, "<p>Something went wrong. Try again later.</p>");
    });
  });

type Client = ReturnType<typeof createServerClient>;

/** A client for one request, which keeps its session in the cookies of the browser. */
function clientOf(api: string, key: string, request: IncomingMessage, response: ServerResponse): Client {
  return createServerClient(api, key, {
    // Behind https, add `secure: true`.
    cookieOptions: { httpOnly: true, sameSite: "lax" },
    cookies: {
      getAll: () =>
        parseCookieHeader(request.headers.cookie ?? "").map(({ name, value }) => ({ name, value: value ?? "" })),
      setAll: (cookies) => {
        const written = cookies.map(({ name, value, options }) => serializeCookieHeader(name, value, options));
        response.setHeader("Set-Cookie", written);
      },
    },
  });
}

/** Sends an invitation; null without a service key. Call it only for users who may invite: the key may do everything. */
type Invite = ((email: string, name: string) => Promise<Done["error"]>) | null;

function inviterOf(api: string, serviceKey: string): Invite {
  if (serviceKey === "") return null;
  const { auth } = createClient(api, serviceKey, { auth: { persistSession: false } });
  return async (email, name) => (await auth.admin.inviteUserByEmail(email, { data: { name } })).error;
}

async function answer(
  client: Client,
  invite: Invite,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url!, "http://site");
  if (request.method === "GET") {
    if (pathname === "/") return showAccount(client, invite, response);
    const page = PAGES[pathname] ?? linkPage(pathname, searchParams);
    if (page !== undefined) return send(response, 200, page);
  }
  // Another site could sign a visitor in to an account of its own.
  const isOwn = request.method === "POST" && request.headers.origin === `http://${request.headers.host}`;
  const action = isOwn ? (ACTIONS[pathname] ?? linkAction(pathname, searchParams)) : undefined;
  if (action === undefined) return send(response, 404, "<p>There is no such page.</p>");
  const { error, next } = await action(client, await formOf(request), invite);
  if (error === null) redirect(response, next);
  else send(response, error.status ?? 500, `<p role="alert">${escapeHtml(error.message)}</p>${PAGES[pathname] ?? ""}`);
}

/** `getUser` asks the service, because cookies can be changed; it refreshes the tokens first if they expire soon. */
async function showAccount(client: Client, invite: Invite, response: ServerResponse): Promise<void> {
  const { data } = await client.auth.getUser();
  if (data.user === null) return send(response, 200, PAGES["/sign-in"]!);
  const { data: articles, error } = await client.from("articles").select("id, title").order("id").limit(3);
  if (error) throw error;
  const items = articles.map(({ title }: { readonly title: string }) => `<li>${escapeHtml(title)}</li>`).join("");
  const leave = `<form method="post" action="/sign-out"><button>Sign out</button></form>`;
  const user = `<p>Signed in as <strong>${escapeHtml(data.user.email ?? "")}</strong></p>`;
  const others = invite && mayInvite(data.user) ? `<p><a href="/invite">Invite a user</a></p>` : "";
  send(response, 200, `${user}<ul>${items}</ul><p><a href="/password">Choose a password</a></p>${others}${leave}`);
}

/** The error of a form, or where the browser continues. */
type Done = {
  readonly error: { readonly message: string; readonly status?: number | undefined } | null;
  readonly next: string;
};
type Action = (client: Client, form: URLSearchParams, invite: Invite) => Promise<Done>;

const text = (form: URLSearchParams, name: string) => form.get(name) ?? "";

const mayInvite = (user: { readonly role?: string } | null) => user?.role === "admin";

const ACTIONS: Readonly<Record<string, Action>> = {
  "/sign-in": async ({ auth }, form) => {
    const { error } = await auth.signInWithPassword({ email: text(form, "email"), password: text(form, "password") });
    return { error, next: "/" };
  },
  "/sign-up": async ({ auth }, form) => {
    const options = { data: { name: text(form, "name") } };
    const sent = { email: text(form, "email"), password: text(form, "password"), options };
    const { data, error } = await auth.signUp(sent);
    return { error, next: data.session === null ? "/sent" : "/" };
  },
  "/forgot": async ({ auth }, form) => {
    const { error } = await auth.resetPasswordForEmail(text(form, "email"));
    return { error, next: "/sent" };
  },
  "/password": async ({ auth }, form) => {
    const { error } = await auth.updateUser({ password: text(form, "password") });
    return { error, next: "/" };
  },
  "/invite": async ({ auth }, form, invite) => {
    const { data } = await auth.getUser();
    if (!invite || !mayInvite(data.user))
      return { error: { message: "Only administrators send invitations.", status: 403 }, next: "/" };
    return { error: await invite(text(form, "email"), text(form, "name")), next: "/invited" };
  },
  "/sign-out": async ({ auth }) => {
    const { error } = await auth.signOut({ scope: "local" });
    return { error, next: "/" };
  },
};

/** The links of e-mails, which lead to /link/confirm with AUTH_PAGES_URL=http://localhost:5174/link, by their `type`. */
const LINKS = {
  signup: { type: "signup", button: "Confirm your e-mail", next: "/" },
  recovery: { type: "recovery", button: "Choose a new password", next: "/password" },
  email: { type: "email", button: "Sign in", next: "/" },
  // Of `auth.admin.inviteUserByEmail`, which creates the user.
  invite: { type: "invite", button: "Accept the invitation", next: "/password" },
} as const;

function linkIn(pathname: string, query: URLSearchParams) {
  const type = query.get("type") ?? "";
  return pathname === "/link/confirm" && Object.hasOwn(LINKS, type) ? LINKS[type as keyof typeof LINKS] : undefined;
}

/** Mail servers open links too: the button uses the link. */
function linkPage(pathname: string, query: URLSearchParams): string | undefined {
  const link = linkIn(pathname, query);
  if (link === undefined) return undefined;
  const token = escapeHtml(query.get("token_hash") ?? "");
  const fields = link.type === "signup" ? REGISTERED : "";
  return `<form method="post">${fields}<input type="hidden" name="token" value="${token}"><button>${link.button}</button></form>`;
}

function linkAction(pathname: string, query: URLSearchParams): Action | undefined {
  const link = linkIn(pathname, query);
  if (link === undefined) return undefined;
  return async ({ auth }, form) => {
    const password = text(form, "password") || null;
    // Without its password, the account may be one that another person has registered: that password ends.
    const sent = { type: link.type, token_hash: text(form, "token"), ...{ password } };
    const { error } = await auth.verifyOtp(sent);
    return { error, next: link.type === "signup" && password === null ? "/password" : link.next };
  };
}

const NAME = `<label>Name <input name="name" autocomplete="name" required></label>`;
const EMAIL = `<label>E-mail <input name="email" type="email" autocomplete="username" required></label>`;
const REGISTERED = `<label>Password that you have registered with (without it, you choose a new one) <input name="password" type="password" autocomplete="current-password"></label>`;
const NEW_PASSWORD = `<label>Password <input name="password" type="password" autocomplete="new-password" required></label>`;
const formTo = (path: string, fields: string, button: string) =>
  `<form method="post" action="${path}">${fields}<button>${button}</button></form>`;

const PAGES: Readonly<Record<string, string>> = {
  "/sign-in": `${formTo("/sign-in", `${EMAIL}<label>Password <input name="password" type="password" autocomplete="current-password" required></label>`, "Sign in")}
<p><a href="/forgot">Forgot your password?</a> <a href="/sign-up">Create an account</a></p>`,
  "/sign-up": formTo("/sign-up", `${NAME}${EMAIL}${NEW_PASSWORD}`, "Create the account"),
  "/forgot": formTo("/forgot", EMAIL, "Send the e-mail"),
  "/sent": "<p>An e-mail is on its way. Open its link to continue.</p>",
  "/invite": formTo("/invite", `${NAME}${EMAIL}`, "Send the invitation"),
  "/invited": "<p>The invitation is on its way.</p>",
  "/password": formTo("/password", NEW_PASSWORD, "Set the password"),
};

const MAX_FORM = 10_000;

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > MAX_FORM) throw new Error("the form is too large");
  }
  return new URLSearchParams(text);
}

/** With 303 the browser gets the page, and a reload does not send the form again. */
const redirect = (response: ServerResponse, location: string) => void response.writeHead(303, { location }).end();

function send(response: ServerResponse, status: number, content: string): void {
  const headers = {
    ...{ "content-type": "text/html; charset=utf-8", "cache-control": "private, no-store" },
    // Tokens of links are in URLs.
    "referrer-policy": "same-origin",
  };
  response.writeHead(status, headers).end(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Account</title></head><body><main><h1>Account</h1>${content}</main></body></html>`);
}

const escapeHtml = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

const [api, key, serviceKey] = process.argv.slice(2);
if (import.meta.main && api && key)
  createSite(api, key, serviceKey).listen(5174, () => console.log("http://localhost:5174"));

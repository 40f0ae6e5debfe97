import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServerClient, parseCookieHeader, serializeCookieHeader } from "@supabase/ssr";

/**
 * Pages that a server of yours renders for the user of their cookies, with `@supabase/ssr`. Scripts in the browser have no token.
 *
 *   node demo/pages/server-rendered/server.ts http://127.0.0.1:3000 <anon key>
 */
export const createSite = (api: string, key: string): Server =>
  createServer((request, response) => {
    const client = clientOf(api, key, request, response);
    answer(client, request, response).catch((error: Error) => {
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

async function answer(client: Client, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url!, "http://site");
  const route = `${request.method} ${pathname}`;
  if (route === "GET /") return showAccount(client, response);
  // Another site could sign a visitor in to an account of its own.
  const isOwn = request.headers.origin === `http://${request.headers.host}`;
  if (route === "POST /sign-in" && isOwn) return signIn(client, await formOf(request), response);
  if (route === "POST /sign-out" && isOwn) {
    await client.auth.signOut({ scope: "local" });
    return redirect(response);
  }
  send(response, 404, "<p>There is no such page.</p>");
}

/** `getUser` asks the service, because cookies can be changed; it refreshes the tokens first if they expire soon. */
async function showAccount(client: Client, response: ServerResponse): Promise<void> {
  const { data } = await client.auth.getUser();
  if (data.user === null) return send(response, 200, FORM);
  const { data: articles } = await client.from("articles").select("id, title").order("id").limit(3);
  const items = (articles ?? [])
    .map(({ title }: { readonly title: string }) => `<li>${escapeHtml(title)}</li>`)
    .join("");
  const leave = `<form method="post" action="/sign-out"><button>Sign out</button></form>`;
  send(
    response,
    200,
    `<p>Signed in as <strong>${escapeHtml(data.user.email ?? "")}</strong></p><ul>${items}</ul>${leave}`,
  );
}

async function signIn(client: Client, form: URLSearchParams, response: ServerResponse): Promise<void> {
  const credentials = { email: form.get("email") ?? "", password: form.get("password") ?? "" };
  const { error } = await client.auth.signInWithPassword(credentials);
  if (error === null) return redirect(response);
  send(response, error.status ?? 500, `<p role="alert">${escapeHtml(error.message)}</p>${FORM}`);
}

const FORM = `<form method="post" action="/sign-in">
<label>E-mail <input name="email" type="email" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>`;

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
const redirect = (response: ServerResponse) => void response.writeHead(303, { location: "/" }).end();

function send(response: ServerResponse, status: number, content: string): void {
  const headers = { "content-type": "text/html; charset=utf-8", "cache-control": "private, no-store" };
  response.writeHead(status, headers).end(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Account</title></head><body><main><h1>Account</h1>${content}</main></body></html>`);
}

const escapeHtml = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);

const [api, key] = process.argv.slice(2);
if (import.meta.main && api && key) createSite(api, key).listen(5174, () => console.log("http://localhost:5174"));

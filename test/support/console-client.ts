import type { TestService } from "./service.ts";

export type ConsoleClient = {
  /** A page of the console, as a browser of the operator receives it. */
  page(path: string): Promise<string>;
  /** The page after its form was sent. */
  send(path: string, fields: Readonly<Record<string, string>>): Promise<string>;
};

export const FORM = { "content-type": "application/x-www-form-urlencoded" };

/** Sends the form of the sign-in. */
export const signIn = (url: string, credential: string, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${url}/console/sign-in`, {
    method: "POST",
    headers: { ...FORM, ...headers },
    body: new URLSearchParams({ credential }),
    redirect: "manual",
  });

/** The console for an operator with this service key or access token. */
export async function consoleClient({ url }: Pick<TestService, "url">, credential: string): Promise<ConsoleClient> {
  const cookie = (await signIn(url, credential)).headers.get("set-cookie")!.split(";")[0]!;
  const page = async (path: string, init: RequestInit = {}) =>
    (await fetch(`${url}/console${path}`, { ...init, headers: { cookie, ...init.headers } })).text();
  return {
    page: (path) => page(path),
    async send(path, fields) {
      const csrf = / name="csrf" value="([^"]+)"/.exec(await page(path))![1]!;
      return page(path, { method: "POST", headers: FORM, body: new URLSearchParams({ ...fields, csrf }) });
    },
  };
}

/** The text of a page without its markup. */
export const textOf = (page: string): string =>
  page
    .replace(/<[^>]+>/g, " ")
    .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replace(/\s+/g, " ");
